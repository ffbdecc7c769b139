package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-run/dibs"
)

// keeper renews a run's lease while its command runs, and stops the command
// when the lease cannot be believed in any more. Safe for concurrent use.
type keeper struct {
	runs   dibs.Runs
	run    dibs.RunRef
	timing wrapTiming
	stop   context.CancelCauseFunc // stops the command
	carry  bool                    // --on-lease-loss continue
	say    func(format string, args ...any)

	mu      sync.Mutex
	end     time.Time // of the lease, at the earliest, by both clocks of this process
	left    bool      // the lease was lost
	gone    bool      // and somebody else may have it: renewals were refused
	reason  string    // how it was lost, for people
	stopBy  time.Time // the run was told to end by then
	trouble error     // of the last renewal
}

// newKeeper takes a lease that was asked for at the instant sent.
func newKeeper(k *keeper, sent time.Time, left time.Duration) *keeper {
	k.end = sent.Add(min(left, k.timing.lease))
	return k
}

// until is when the lease is not believed in any more. A run that was asked to
// stop has its grace already. Called under mu.
func (k *keeper) until() time.Time {
	if !k.stopBy.IsZero() {
		return k.end.Add(-k.timing.slack)
	}
	return k.end.Add(-k.timing.margin())
}

// killBy is when nothing of the command may be left. See [wrapped.Config].
func (k *keeper) killBy() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.carry {
		return time.Time{}
	}
	return k.end.Add(-k.timing.slack)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// leaseEnd is when the database's lease ends at the earliest.
func (k *keeper) leaseEnd() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.end
}

// state tells what became of the lease.
func (k *keeper) state() (lost, refused bool, how string, stopBy time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.left, k.gone, k.reason, k.stopBy
}

// keep renews until ctx ends. The watch on the wall clock is for hosts that
// slept: the monotonic clock stands still meanwhile.
func (k *keeper) keep(ctx context.Context) {
	next := time.Now().Add(k.timing.beat)
	timer := time.NewTimer(k.pause(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		if suspicious := k.watch(now); suspicious || !now.Before(next) {
			next = now.Add(k.timing.beat)
			if !k.renew(ctx) {
				next = time.Now().Add(min(k.timing.beat/4, time.Second))
			}
		}
		timer.Reset(k.pause(next))
	}
}

// pause is how long until something may have to be done.
func (k *keeper) pause(next time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := min(time.Until(next), time.Second)
	if !k.left {
		d = min(d, time.Until(k.until()))
	}
	return max(d, time.Millisecond)
}

// watch acts on a deadline that has passed. True asks for a renewal now: by the
// wall clock alone it has passed.
func (k *keeper) watch(now time.Time) (suspicious bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left {
		return false
	}
	if !now.Before(k.until()) {
		how := "it could not be renewed in time"
		if k.trouble != nil {
			how += ": " + k.trouble.Error()
		}
		k.lose(how)
		return false
	}
	return !now.Round(0).Before(k.until().Round(0))
}

// lose stops the command. Called under mu.
func (k *keeper) lose(how string) {
	if k.left {
		return
	}
	k.left, k.reason = true, how
	if k.carry {
		k.say("the lease is lost (%s); the command goes on, as --on-lease-loss continue says", how)
		return
	}
	k.stop(fmt.Errorf("%w: %s", dibs.ErrLeaseLost, how))
}

// renew makes one renewal, bounded by a beat and by what is left; false: try
// again soon. After a lapse nobody may have taken the lock, so that asking is
// still right.
func (k *keeper) renew(ctx context.Context) bool {
	k.mu.Lock()
	limit := k.timing.beat
	if !k.left {
		limit = max(min(limit, time.Until(k.until())), 100*time.Millisecond)
	}
	refused := k.gone
	k.mu.Unlock()
	if refused {
		return true
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	got, err := k.runs.RenewRun(call, k.run, k.timing.lease)
	if ctx.Err() != nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trouble = err; err != nil {
		return false
	}
	if !got.StopBy.IsZero() && k.stopBy.IsZero() && !got.Ends.IsZero() {
		k.stopBy = sent.Add(got.StopBy.Sub(got.Now))
		k.stop(errAskedToStop)
	}
	switch {
	case !got.Run.IsZero():
		k.end = sent.Add(min(k.timing.lease, got.Run.Sub(got.Now)))
	case !got.Ends.IsZero() && !got.StopBy.IsZero(): // what is left is for stopping
		k.end = sent.Add(got.Ends.Sub(got.Now))
	default:
		k.gone = true
		k.lose("a renewal was refused: the run is no longer ours")
	}
	return true
}

// errAskedToStop is the cause of a stop that somebody wrote on the run's row.
var errAskedToStop = fmt.Errorf("%w: the run was told to stop", dibs.ErrStopping)
