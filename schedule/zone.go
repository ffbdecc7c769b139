package schedule

import (
	_ "embed"
	"math"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a binary without zone data on its host must still know every zone
)

// zoneNames lists the IANA names of Go's zone data, one a line. It serves
// hints and the check of letter case; newer names load all the same.
//
//go:generate go run gen.go
//go:embed zones.txt
var zoneNames string

// Zones keeps the zones it has loaded, so that thousands of schedules share
// them: a zone takes several kilobytes. The zero value is ready; it may be
// used by several goroutines. A host's new zone data is seen by a new Zones.
type Zones struct {
	mu     sync.Mutex
	loaded map[string]*time.Location
}

func (z *Zones) load(name string) (*time.Location, *Error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if loc := z.loaded[name]; loc != nil {
		return loc, nil
	}
	loc, fault := loadZone(name)
	if fault != nil {
		return nil, fault
	}
	if z.loaded == nil {
		z.loaded = make(map[string]*time.Location)
	}
	z.loaded[name] = loc
	return loc, nil
}

// loadZone refuses whatever is not the exact name of one zone.
func loadZone(name string) (*time.Location, *Error) {
	fault := &Error{Field: "zone", Pos: -1, Text: name}
	switch {
	case name == "":
		fault.Reason, fault.Fix = "a cron schedule needs a zone, and none is assumed", "write time_zone: Europe/Amsterdam, or UTC"
		return nil, fault
	case strings.EqualFold(name, "local") || name == "Factory":
		fault.Reason, fault.Fix = "means something else on every host", "write the IANA name, for example Europe/Amsterdam or UTC"
		return nil, fault
	}
	near := ""
	if !listedZone(name) {
		near = nearestZone(name)
	}
	if properZone(name) && !strings.EqualFold(near, name) {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc, nil
		}
	}
	fault.Reason, fault.Fix = "is not a time zone", "write an IANA name, for example Europe/Amsterdam or UTC"
	if near != "" {
		fault.Fix = "did you mean " + near + "?"
	}
	return nil, fault
}

func listedZone(name string) bool {
	at := strings.Index("\n"+zoneNames, "\n"+name+"\n")
	return at >= 0 && !strings.Contains(name, "\n")
}

// properZone keeps files that merely lie beside the zones from being loaded
// (right/…, posix/…, localtime), and lower-case names from working on one
// file system only.
func properZone(name string) bool {
	return len(name) <= 64 && name[0] >= 'A' && name[0] <= 'Z'
}

// nearestZone answers the listed name closest to name, if any is close.
func nearestZone(name string) (near string) {
	if len(name) > 64 {
		return ""
	}
	folded := strings.ToLower(strings.ReplaceAll(name, " ", "_"))
	least, city := len(name)/3+1, folded[strings.LastIndexByte(folded, '/')+1:]
	for zone := range strings.SplitSeq(strings.TrimSpace(zoneNames), "\n") {
		lower := strings.ToLower(zone)
		d := distance(folded, lower)
		if strings.HasSuffix(lower, "/"+city) {
			d = min(d, 1)
		}
		if d < least {
			near, least = zone, d
		}
	}
	return near
}

// distance is the Levenshtein distance of two short texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// segment is a stretch of instants [start, end) with one offset from UTC, in
// seconds. The ends of time are alwaysStart and alwaysEnd. The neighbour may
// have the same offset: beyond its table a zone is also cut at each new year.
type segment struct{ start, end, off int64 }

const (
	alwaysStart = math.MinInt64 / 4
	alwaysEnd   = math.MaxInt64 / 4
	maxShift    = 26 * 3600 // no two offsets on earth are further apart
)

// The slots of a schedule lie in the years 1 to 9999, whatever the offset.
const (
	minInstant = -62135424000 // 0001-01-03T00:00:00Z
	maxInstant = 253402128000 // 9999-12-30T00:00:00Z
)

// segmentAt finds the stretch that contains instant t.
func (s *Schedule) segmentAt(t int64) segment {
	if s.loc == time.UTC {
		return segment{alwaysStart, alwaysEnd, 0}
	}
	at := time.Unix(t, 0).In(s.loc)
	_, off := at.Zone()
	g := segment{alwaysStart, alwaysEnd, int64(off)}
	start, end := at.ZoneBounds()
	if !start.IsZero() {
		g.start = start.Unix()
	}
	if !end.IsZero() {
		g.end = end.Unix()
	}
	if g.start != alwaysStart && s.offsetAt(g.start) != g.off {
		g.start = s.changeBetween(g.start, t)
	}
	if g.end <= t {
		// Past the zone's table, ZoneBounds ends a year after 365 days, so
		// that the 31 December of a leap year lies beyond its own end.
		year, _, _ := civil(floorDiv(t, daySeconds))
		g.end = civilDays(year+1, 1, 1) * daySeconds
	}
	return g
}

// changeBetween bisects for the change of the offset in (from, to]. Right
// after the end of a zone's table, ZoneBounds answers with the start that the
// rule for later years would have had, although the table was still in force.
func (s *Schedule) changeBetween(from, to int64) int64 {
	for off := s.offsetAt(to); to-from > 1; {
		if middle := from + (to-from)/2; s.offsetAt(middle) == off {
			to = middle
		} else {
			from = middle
		}
	}
	return to
}

// offsetAt is the offset from UTC in force at instant t, in seconds.
func (s *Schedule) offsetAt(t int64) int64 {
	_, off := time.Unix(t, 0).In(s.loc).Zone()
	return int64(off)
}
