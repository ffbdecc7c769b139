package schedule

import (
	"fmt"
	"time"
)

// Delay is the jitter of one slot: how long after the slot its run is to
// start, in [0, Jitter), whole microseconds. It depends on the job's name and
// the slot alone, so that every process computes the same. The slot stays the
// slot's identity.
func (s *Schedule) Delay(slot time.Time) time.Duration {
	span := uint64(s.spec.Jitter / time.Microsecond)
	if span == 0 {
		return 0
	}
	// FNV-1a over the name, then the slot mixed in by splitmix64: FNV alone
	// leaves neighbouring slots with neighbouring delays.
	h := uint64(14695981039346656037)
	for i := range len(s.spec.Name) {
		h = (h ^ uint64(s.spec.Name[i])) * 1099511628211
	}
	h += uint64(slot.Unix()) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return time.Duration((h^h>>31)%span) * time.Microsecond
}

// checkJitter refuses a jitter that would let one slot's start pass the next.
func (p *parser) checkJitter() {
	j := p.spec.Jitter
	if j == 0 {
		return
	}
	interval := p.Interval()
	switch {
	case j < 0:
		p.bad.add("jitter", -1, j.String(), "is negative", "write for example 30s")
	case p.spec.Name == "":
		p.bad.add("jitter", -1, j.String(), "spreads jobs by their name, and there is none", "give the job's name")
	case interval > 0 && j >= interval:
		p.bad.add("jitter", -1, j.String(), fmt.Sprintf("must be shorter than the interval of %s, or slots would overtake one another", interval), "write a shorter jitter")
	}
}
