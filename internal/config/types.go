package config

import (
	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/schedule"
)

// The structs below are the file's grammar. Their tags are read by the decoder,
// the JSON Schema and the reference page:
//
//	yaml   the field's name
//	doc    what it means
//	enum   the words it may hold
//	later  words that are refused in this version; * refuses the field
//	min    the least number
//	zero   "yes" when a duration may be zero
//	must   "yes" when its mapping is not complete without it

// document is the whole file.
type document struct {
	Database     string         `yaml:"database" doc:"Where the rows are: sqlite:PATH (relative to this file), postgres://… or mysql://…. Only a last resort: --db and $DIBS_DATABASE_URL come first."`
	Installation string         `yaml:"installation" doc:"The installation ID that the database must have. A restored copy has another and is refused."`
	Defaults     *Settings      `yaml:"defaults" doc:"Settings for every job that does not say otherwise."`
	Include      Names          `yaml:"include" doc:"Files with more jobs, as one pattern or a list, relative to this file: jobs.d/*.yaml. They hold jobs: and nothing else."`
	Jobs         map[string]Job `yaml:"jobs" doc:"The jobs by name: 1 to 200 bytes, no control characters, no outer white space."`
}

// Settings are the fields that defaults: may hold too.
type Settings struct {
	TimeZone    string           `yaml:"time_zone" doc:"IANA name of the zone in which cron fields are read, or UTC. Required with a cron schedule that does not name one itself (CRON_TZ=)."`
	Overlap     dibs.Overlap     `yaml:"overlap" enum:"skip,queue,coalesce,replace,allow" doc:"What happens to a trigger that arrives while a run has the lock. Required, here or in defaults."`
	OnUncertain dibs.OnUncertain `yaml:"on_uncertain" enum:"replay,lookup,hold" doc:"What happens to an item whose earlier attempt began and left no outcome. Required, here or in defaults. replay: the handler is idempotent, run it again; lookup: ask the destination, by lookup; hold: a person decides."`
	Receipt     string           `yaml:"receipt" enum:"optional,required" doc:"required: done without the destination's ID is an unknown outcome. Default optional."`
	LookupAfter Duration         `yaml:"lookup_after" doc:"How long after the last instant at which an attempt could have sent an absent answer is believed. Default: twice timeout, or twice lease without one."`
	Idempotency *Idempotency     `yaml:"idempotency" doc:"What the destination promises about repeated requests, for on_uncertain: replay."`
	Batch       int              `yaml:"batch" min:"1" doc:"The most rows that one claim takes. Default 100."`
	Concurrency int              `yaml:"concurrency" min:"1" doc:"Handlers running at once. Default 1."`
	Lease       Duration         `yaml:"lease" doc:"How long a claim lasts without renewal. Default 60s. With heartbeat: off it must outlast the run."`
	Heartbeat   Switch           `yaml:"heartbeat" doc:"off turns renewal off. Default on."`
	Grace       Duration         `yaml:"grace" doc:"How long a cancelled handler may take to stop. Default: the smaller of 10s and a quarter of the lease."`
	Timeout     Duration         `yaml:"timeout" doc:"The limit per item; of a job without a source, per run. Default: none."`
	MaxItems    int              `yaml:"max_items" min:"1" doc:"End a run after this many items. Default: no limit."`
	MaxDuration Duration         `yaml:"max_duration" doc:"Stop claiming after this time. Default: no limit."`
	Retry       *Retry           `yaml:"retry" doc:"How failed items come back."`
	CatchUp     *CatchUp         `yaml:"catch_up" doc:"What happens to slots that passed unfired: none, latest (default) or all, or a mapping. Whatever is dropped is recorded as missed."`
	Early       Duration         `yaml:"early" doc:"How long before a slot a request for it is already in time. Default: the smaller of 10s and a tenth of the schedule's interval."`
	QueueLimit  int              `yaml:"queue_limit" min:"1" doc:"The most triggers that wait under overlap: queue. Default 10."`
	RunOn       Names            `yaml:"run_on" doc:"The hosts that may run the job, as one name or a list. Elsewhere a slot is left waiting for one of them. Default: every host."`
	Breaker     int              `yaml:"breaker" min:"1" doc:"How many consecutive answers that the destination is down, or refuses us altogether, make a run stop claiming. Default 10."`
	FailWhen    FailWhen         `yaml:"fail_when" doc:"When failed items make a command exit with 3: any (default), all, or a share such as 5%."`
	Owner       string           `yaml:"owner" doc:"Who to ask about the job."`
	Labels      Labels           `yaml:"labels" doc:"Free names and values, shown and recorded."`

	RecoverLimit int `yaml:"recover_limit" min:"1" doc:"How many items a recovery may replay without --yes-large. Default 1000."`
}

// Labels are names and values that a person chose.
type Labels map[string]string

// Job is one definition.
type Job struct {
	// Name is the job's name.
	Name string `yaml:"-"`
	// Definition is the job as the file says it, defaults included, as JSON with
	// sorted names and before interpolation: it holds no secret of the
	// environment. Hash names it.
	Definition string `yaml:"-"`

	Settings
	Schedule  *Schedule `yaml:"schedule" doc:"When the job is due: \"*/5 * * * *\", \"@every 90s\", or a mapping. Without one, something else says when."`
	Source    *Source   `yaml:"source" doc:"Where the items come from. Without one, the run itself is the one item."`
	Operation string    `yaml:"operation" doc:"The middle part of the default work ID. Default: run."`
	Identity  string    `yaml:"identity" doc:"The template of the work ID: parts between slashes, each a text or one of {job}, {operation}, {key}, {key.N}, {key.COLUMN}, {cycle}, {slot}, {trigger} and the selected columns. Default {job}/{operation}/{key}/{cycle}, of one-shot rows without {cycle}."`
	Lock      string    `yaml:"lock" doc:"Jobs with the same lock exclude one another. Default: the job's name."`
	PerHost   bool      `yaml:"per_host" doc:"Each host has a job of its own, NAME@HOST, with its own lock, slots and history. Only without a source."`
	NotWithin Duration  `yaml:"not_within" doc:"Refuse a trigger so soon after the last run that succeeded, unless a person asks. For jobs that something else fires; for rows see source."`
	Handler   *Handler  `yaml:"handler" doc:"What does the work: one of exec, shell and http. Required with a source."`
	Lookup    *Lookup   `yaml:"lookup" doc:"How to ask the destination what became of an item: exec or http. Required with on_uncertain: lookup."`

	node     *node
	schedule *schedule.Schedule
}

// Schedule says when a job is due, as the file has it: see
// [Job.ParsedSchedule].
type Schedule struct {
	Cron    string   `yaml:"cron" doc:"Five cron fields, six with seconds: true; also \"@every 90s\" and \"@daily\"."`
	Every   Duration `yaml:"every" doc:"A fixed distance, counted from a stored epoch."`
	At      string   `yaml:"at" doc:"One instant, RFC 3339: 2027-03-01T09:00:00Z."`
	DST     *DST     `yaml:"dst" doc:"What happens at a change of the clock. The defaults follow the hour field: see schedules.md."`
	Days    string   `yaml:"days" enum:"classic,both" doc:"How two restricted day fields combine: classic (either suffices, unless one begins with *) or both. Default classic."`
	Seconds bool     `yaml:"seconds" doc:"The cron expression has six fields, seconds first. Without it six fields are refused."`
	Jitter  Duration `yaml:"jitter" doc:"Delay each start by less than this, from the job's name and the slot, so that every host computes the same. Shorter than the interval."`
}

// CatchUp says what happens to slots that passed unfired.
type CatchUp struct {
	Mode   dibs.CatchUpMode `yaml:"mode" enum:"none,latest,all" doc:"none: they are missed. latest: one run, for the newest. all: one run each, oldest first, one after another. Default latest."`
	Limit  int              `yaml:"limit" min:"1" doc:"The most slots that all runs; the newest are kept. Default 100."`
	Window Duration         `yaml:"window" doc:"The greatest age of a slot that still runs. Default: no limit; with none, 10m."`
}

// DST overrides what happens at a change of the clock.
type DST struct {
	Missing  string `yaml:"missing" enum:"shift,skip" doc:"A wall time that the change leaves out: shift to the first instant after it, or skip."`
	Repeated string `yaml:"repeated" enum:"first,last,both" doc:"Which pass of a wall time that occurs twice fires."`
}

// Source is a claimable table.
type Source struct {
	Table     string    `yaml:"table" must:"yes" doc:"The table, as NAME or SCHEMA.NAME."`
	Schema    string    `yaml:"schema" doc:"The schema, when one of the two names holds a dot: table is then taken as it is."`
	Key       Names     `yaml:"key" must:"yes" doc:"The key column, or a list for a composite key. Primary or unique."`
	Where     string    `yaml:"where" doc:"Restricts which rows are claimed: one SQL expression over the table's own columns."`
	Select    []string  `yaml:"select" doc:"The columns that handlers receive."`
	Columns   *Columns  `yaml:"columns" doc:"Our column names mapped to the table's own."`
	Labels    *Statuses `yaml:"labels" doc:"Our states mapped to the table's own labels."`
	OneShot   bool      `yaml:"one_shot" doc:"Rows are done after one success. Other rows recur."`
	TwoColumn bool      `yaml:"two_column" doc:"Use the columns status and started_at alone."`
	Every     *Duration `yaml:"every" zero:"yes" doc:"How long after its success a row is due again. 0s: in the next run."`
	NotWithin *Duration `yaml:"not_within" zero:"yes" doc:"For jobs that something else fires: a row is not taken again within this time of its success. 0s means: I know that it may be."`
}

// Columns maps our column names to a table's own.
type Columns struct {
	Status        string `yaml:"status" doc:"Default: status."`
	StartedAt     string `yaml:"started_at" doc:"Default: started_at."`
	ClaimableAt   string `yaml:"claimable_at" doc:"Default: claimable_at."`
	ClaimToken    string `yaml:"claim_token" doc:"Default: claim_token."`
	Fence         string `yaml:"fence" doc:"Default: fence."`
	Attempts      string `yaml:"attempts" doc:"Default: attempts."`
	Expirations   string `yaml:"expirations" doc:"Default: expirations."`
	Cycle         string `yaml:"cycle" doc:"Default: cycle."`
	LastSuccessAt string `yaml:"last_success_at" doc:"Default: not there."`
	LastError     string `yaml:"last_error" doc:"Default: not there."`
}

// Statuses maps our states to a table's own labels.
type Statuses struct {
	Idle        string `yaml:"idle" doc:"Default: IDLE."`
	InProgress  string `yaml:"in_progress" doc:"Default: IN_PROGRESS."`
	Failed      string `yaml:"failed" doc:"Default: FAILED."`
	Done        string `yaml:"done" doc:"Default: DONE for one-shot rows, else not there."`
	Quarantined string `yaml:"quarantined" doc:"Default: not there."`
}

// Retry says how failed items come back.
type Retry struct {
	Backoff        Backoff `yaml:"backoff" doc:"From the first wait to the longest, doubling, with full jitter. Default 30s..1h."`
	MaxAttempts    int     `yaml:"max_attempts" min:"1" doc:"The budget of a one-shot row. Default 8; recurring rows retry without limit unless this is set."`
	MaxExpirations int     `yaml:"max_expirations" min:"1" doc:"How many lease expirations in a row quarantine a row. Default 3."`
}

// Handler does the work: exactly one of its fields is set.
type Handler struct {
	Exec  []string `yaml:"exec" doc:"A program and its arguments, one process per item, never through a shell."`
	Shell string   `yaml:"shell" doc:"A shell command, only for jobs without a source. A dollar sign before { is written $${."`
	HTTP  *HTTP    `yaml:"http" doc:"One HTTP request per item."`
}

// Idempotency is what a destination promises about repeated requests.
type Idempotency struct {
	ValidFor Duration `yaml:"valid_for" must:"yes" doc:"How long after its first attempt a replay is recognised. After that an unknown outcome is held."`
}

// Lookup asks the destination: exactly one of its fields is set.
type Lookup struct {
	Exec []string    `yaml:"exec" doc:"A program and its arguments. Exit code 0 with a receipt means found, 3 absent, anything else that it cannot be told."`
	HTTP *LookupHTTP `yaml:"http" doc:"One HTTP request. 404 means absent."`
}

// LookupHTTP is a request that asks about one item.
type LookupHTTP struct {
	Method   string    `yaml:"method" doc:"Default GET."`
	URL      string    `yaml:"url" must:"yes" doc:"An http or https address; templates such as {work_id} may stand in its path and its query."`
	Headers  Headers   `yaml:"headers" doc:"Header names and values; values may hold templates."`
	Body     string    `yaml:"body" doc:"A template. Default: none."`
	Matches  Pointer   `yaml:"matches" doc:"JSON pointer to the list of what was found: none is absent, one found, more a duplicate. Without it the response is what was found."`
	ID       Pointer   `yaml:"id" doc:"JSON pointer to the destination's own ID, inside a match or the response."`
	Evidence []Pointer `yaml:"evidence" doc:"JSON pointers to fields worth keeping, as a list."`
}

// HTTP is a request per item. URL, header values and body may hold templates
// such as {work_id}; package handler knows them.
type HTTP struct {
	Method            string    `yaml:"method" doc:"Default POST."`
	URL               string    `yaml:"url" must:"yes" doc:"An http or https address; templates may stand in its path and its query."`
	Headers           Headers   `yaml:"headers" doc:"Header names and values; values may hold templates."`
	Body              string    `yaml:"body" doc:"A template. Default: the item as JSON, except with GET, HEAD and DELETE."`
	ID                Pointer   `yaml:"id" doc:"JSON pointer to the destination's own ID in the response."`
	Evidence          []Pointer `yaml:"evidence" doc:"JSON pointers to fields worth keeping, as a list."`
	IdempotencyHeader string    `yaml:"idempotency_header" doc:"The header that carries a UUID derived from the work ID. Default Idempotency-Key; - sends none."`
	Status            *Status   `yaml:"status" doc:"What status codes mean, where the defaults do not fit."`
}

// Headers are HTTP header names and values.
type Headers map[string]string

// Status says what status codes mean: codes such as 409 or classes such as 4xx.
type Status struct {
	Done     []StatusCode `yaml:"done" doc:"The item is done. Default 2xx."`
	Later    []StatusCode `yaml:"later" doc:"Not applied, try again later."`
	Rejected []StatusCode `yaml:"rejected" doc:"Refused for good. Default: 4xx except 401, 403, 408, 425 and 429."`
	Stop     []StatusCode `yaml:"stop" doc:"Stop claiming. Default 401 and 403."`
}
