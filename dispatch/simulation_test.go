package dispatch_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/schedule"
)

// Many mixed schedules in twelve zones, in virtual time, with outages, restarts,
// edits, lost runs, one to five daemons and outside ticks. Each due slot gets
// exactly one decision, none runs twice, none is lost without a missed row. The
// ordinary test plays some days of one seed around the changes of the clock; make
// soak plays a year of a new one. A seed reproduces, which the digest of the history shows: DIBS_SEED=7,
// and DIBS_DAYS=30 for another length.
func TestRandomSimulationDecidesEachSlotOnce(t *testing.T) {
	seed, days := uint64(7), 3
	if raceDetector {
		days = 1
	}
	if os.Getenv("DIBS_SOAK") != "" {
		seed, days = uint64(time.Now().UnixNano()), 365
	}
	if text := os.Getenv("DIBS_DAYS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			t.Fatalf("DIBS_DAYS: %q is no positive number, %v", text, err)
		}
		days = n
	}
	if text := os.Getenv("DIBS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("DIBS_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("DIBS_SEED=%d", seed)
	inWorld(t, func(w *world) {
		s := newSimulation(w, seed, 200)
		s.play(time.Duration(days) * 24 * time.Hour)
		s.check()
	})
}

// simulation is one history. It has one goroutine, so that a seed says it all.
type simulation struct {
	w       *world
	rnd     *rand.Rand
	jobs    []*simJob
	daemons []daemon
	outage  bool
	events  events
	end     time.Time
	made    int
	decided int
}

// daemon is one scheduler; an outside cron is one that is never down.
type daemon struct {
	process
	down bool
}

// simJob is a job and the eras of its definitions.
type simJob struct {
	*dibs.Job
	eras []era
	hash int
	live map[string]time.Time // running runs with the lock, until when
}

// era is the time of one definition.
type era struct {
	from  time.Time
	sched *schedule.Schedule
}

func zones() []string {
	return []string{
		"UTC", "Europe/Amsterdam", "America/New_York", "America/Sao_Paulo", "Asia/Tokyo", "Asia/Kolkata",
		"Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Auckland", "America/St_Johns", "Asia/Tehran", "Atlantic/Azores",
	}
}

func (s *simulation) schedule() *schedule.Schedule {
	r := s.rnd
	zone := zones()[r.IntN(len(zones()))]
	exprs := []string{
		fmt.Sprintf("%d %d * * *", r.IntN(60), r.IntN(24)), fmt.Sprintf("%d 2 * * *", r.IntN(60)),
		fmt.Sprintf("%d %d * * %d", r.IntN(60), r.IntN(24), r.IntN(7)), fmt.Sprintf("%d */6 * * *", r.IntN(60)),
		fmt.Sprintf("%d %d L * *", r.IntN(60), r.IntN(24)), fmt.Sprintf("%d %d 1,15 * *", r.IntN(60), r.IntN(24)),
		fmt.Sprintf("%d * * * *", r.IntN(60)), fmt.Sprintf("@every %dm", 90+r.IntN(900)),
		fmt.Sprintf("%d,%d 3 * * 1-5", r.IntN(30), 30+r.IntN(30)), "0 0 * * *",
	}
	got, err := schedule.ParseExpr(exprs[r.IntN(len(exprs))], zone)
	if err != nil {
		s.w.t.Fatal(err)
	}
	return got
}

func newSimulation(w *world, seed uint64, jobs int) *simulation {
	s := &simulation{w: w, rnd: rand.New(rand.NewPCG(seed, 7))}
	before := []time.Time{ // the clocks change in Europe, in America, in both
		time.Date(2000, 3, 25, 0, 0, 0, 0, time.UTC), time.Date(2000, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(2000, 10, 28, 0, 0, 0, 0, time.UTC),
	}[s.rnd.IntN(3)]
	until(before.Add(time.Duration(s.rnd.IntN(24)) * time.Hour))
	overlaps := []dibs.Overlap{dibs.Skip, dibs.Queue, dibs.Coalesce, dibs.Replace, dibs.Allow}
	modes := []dibs.CatchUp{{}, {Mode: dibs.CatchUpNone}, {Mode: dibs.CatchUpAll, Limit: 3}, {Mode: dibs.CatchUpAll, Window: 12 * time.Hour}}
	for i := range jobs {
		j := &simJob{Job: &dibs.Job{Name: fmt.Sprint("job", i), Overlap: overlaps[s.rnd.IntN(5)], CatchUp: modes[s.rnd.IntN(4)]}, live: map[string]time.Time{}}
		if i%10 == 0 {
			j.Lock = fmt.Sprint("shared", i/50)
		}
		s.jobs = append(s.jobs, j)
		s.define(j)
	}
	for i := range 1 + s.rnd.IntN(5) {
		s.daemons = append(s.daemons, daemon{process: w.process(fmt.Sprint("daemon", i))})
	}
	return s
}

// define registers the job with another schedule.
func (s *simulation) define(j *simJob) {
	j.hash++
	sched := s.schedule()
	j.Schedule = sched
	s.w.register(j.Name, fmt.Sprint("h", j.hash))
	state, err := s.w.store.Job(s.w.t.Context(), j.Name)
	if err != nil {
		s.w.t.Fatal(err)
	}
	j.eras = append(j.eras, era{state.Reference, sched})
}

// play plays a span of time.
func (s *simulation) play(span time.Duration) {
	s.end = time.Now().Add(span)
	for _, j := range s.jobs {
		s.wake(j)
		s.at(s.soon(span), func() { s.edit(j) })
		s.at(s.soon(span), func() { s.outside(j) })
	}
	for range 2 + int(span/(30*24*time.Hour)) {
		s.at(s.soon(span), s.beginOutage)
		s.at(s.soon(span), s.restart)
	}
	s.at(time.Hour, s.tend)
	for s.events.Len() > 0 {
		e := heap.Pop(&s.events).(event)
		until(e.at)
		e.do()
	}
	// Nobody is down any more: what is due is decided, what waits is served.
	s.outage = false
	for i := range s.daemons {
		s.daemons[i].down = false
	}
	s.catchUp()
	for quiet := 0; quiet < 3; quiet++ {
		for s.events.Len() > 0 {
			e := heap.Pop(&s.events).(event)
			until(e.at)
			e.do()
			quiet = 0
		}
		pass(time.Hour)
		s.tend()
	}
}

func (s *simulation) soon(span time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(span)))
}

// at plans something; what lies after the end is dropped, except ends of runs.
func (s *simulation) at(in time.Duration, do func()) {
	if when := time.Now().Add(in); when.Before(s.end) {
		s.plan(when, do)
	}
}

func (s *simulation) plan(when time.Time, do func()) {
	s.made++
	heap.Push(&s.events, event{when, s.made, do})
}

// wake plans the job's next slot: one to three daemons come, some of them late.
func (s *simulation) wake(j *simJob) {
	next, ok := j.Schedule.Next(time.Now())
	if !ok || !next.Before(s.end) {
		return
	}
	s.plan(next, func() {
		for range 1 + s.rnd.IntN(3) {
			s.at(time.Duration(s.rnd.Int64N(int64(3*time.Second))), func() { s.fire(j, dueSlot) })
		}
		s.at(5*time.Second, func() { s.wake(j) })
	})
}

// up is a daemon that is there, if any is.
func (s *simulation) up() (daemon, bool) {
	d := s.daemons[s.rnd.IntN(len(s.daemons))]
	return d, !s.outage && !d.down
}

func (s *simulation) fire(j *simJob, change func(*dispatch.Request)) {
	if d, ok := s.up(); ok {
		s.bring(d.process, j, change)
	}
}

func (s *simulation) bring(p process, j *simJob, change func(*dispatch.Request)) {
	f := p.fire(j.Job, func(r *dispatch.Request) {
		change(r)
		r.Lease, r.Able = lease, s.able()
	})
	s.decided++
	s.work(p, f.Run)
}

// able runs the waiting triggers of all jobs.
func (s *simulation) able() dispatch.Able {
	return func(t dibs.Trigger) (dispatch.Worker, bool) {
		for _, j := range s.jobs {
			if j.Name == t.Job {
				return dispatch.Worker{Hash: "h", Kind: dibs.KindCommand, Lease: lease, Beside: j.Overlap == dibs.Allow}, true
			}
		}
		return dispatch.Worker{}, false
	}
}

// work plays a run: mostly short, sometimes long, sometimes its process dies.
func (s *simulation) work(p process, run *dibs.Run) {
	if run == nil {
		return
	}
	s.exclusive(run)
	if s.rnd.IntN(40) == 0 {
		return // dies: its lease ends
	}
	took := time.Duration(s.rnd.Int64N(int64(40 * time.Second)))
	if s.rnd.IntN(20) == 0 {
		took = s.soon(5 * time.Hour)
	}
	beats := took / (lease / 3)
	for i := range int(beats) {
		s.plan(time.Now().Add(time.Duration(i+1)*lease/3), func() { _, _ = s.w.store.RenewRun(s.w.t.Context(), run.Ref(), lease) })
	}
	s.plan(time.Now().Add(took), func() {
		if now := s.w.run(run.ID); now.State != dibs.RunRunning {
			return // lost or replaced meanwhile
		}
		done := p.end(run, s.able())
		if done.Next != nil {
			s.work(p, done.Next.Run)
		}
	})
}

// exclusive proves that no other live run has the lock.
func (s *simulation) exclusive(run *dibs.Run) {
	if run.Lock == "" {
		return
	}
	var n int
	err := s.w.db.QueryRowContext(s.w.t.Context(),
		"SELECT count(*) FROM dibs_runs WHERE lock_name = ? AND state = 'running'", run.Lock).Scan(&n)
	if err != nil || n != 1 {
		s.w.t.Errorf("%d runs have the lock %s, %v", n, run.Lock, err)
	}
}

func (s *simulation) outside(j *simJob) {
	s.bring(s.w.process("crontab"), j, latest)
	s.at(s.soon(72*time.Hour), func() { s.outside(j) })
}

func (s *simulation) edit(j *simJob) {
	if s.rnd.IntN(4) == 0 {
		s.define(j)
		s.wake(j)
	}
}

func (s *simulation) beginOutage() {
	s.outage = true
	s.plan(time.Now().Add(s.soon(40*time.Hour)), func() {
		s.outage = false
		s.catchUp()
	})
}

func (s *simulation) restart() {
	i := s.rnd.IntN(len(s.daemons))
	s.daemons[i].down = true
	s.plan(time.Now().Add(s.soon(3*time.Hour)), func() { s.daemons[i].down = false })
}

// catchUp fires whatever is due, as a daemon does when it starts.
func (s *simulation) catchUp() {
	for _, j := range s.jobs {
		s.fire(j, dueSlot)
	}
}

// tend sweeps and looks after waiting triggers, as every tick does.
func (s *simulation) tend() {
	s.at(time.Hour, s.tend)
	d, ok := s.up()
	if !ok {
		return
	}
	ctx := s.w.t.Context()
	if _, err := d.Sweep(ctx); err != nil {
		s.w.t.Fatal(err)
	}
	locks, err := d.WaitingLocks(ctx)
	if err != nil {
		s.w.t.Fatal(err)
	}
	for _, lock := range locks {
		f, err := d.Pump(ctx, lock, s.able())
		if err != nil {
			s.w.t.Fatal(err)
		}
		s.work(d.process, f.Run)
	}
}

// event is something that happens at an instant; equal instants keep the order
// in which they were planned.
type event struct {
	at time.Time
	n  int
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(a, b int) bool {
	if !e[a].at.Equal(e[b].at) {
		return e[a].at.Before(e[b].at)
	}
	return e[a].n < e[b].n
}
func (e events) Swap(a, b int) { e[a], e[b] = e[b], e[a] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
