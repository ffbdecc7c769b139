package runner

import (
	"fmt"
	"slices"

	"github.com/dibs-run/dibs"
)

// validateSchedule checks what says when a job runs, and where.
func (j *job) validateSchedule(fault func(field, problem, fix string)) {
	if j.PerHost && j.table != nil {
		fault("per_host", "the rows of a table belong to no host", "leave per_host out: claims exclude one another across hosts")
	}
	if slices.Contains(j.RunOn, "") {
		fault("run_on", "a host's name is empty", "write the name that the host gives itself")
	}
	switch j.CatchUp.Mode {
	case "", dibs.CatchUpNone, dibs.CatchUpLatest, dibs.CatchUpAll:
	default:
		fault("catch_up", fmt.Sprintf("%q is no mode", j.CatchUp.Mode), "choose none, latest or all")
	}
	if j.CatchUp.Limit < 0 || j.CatchUp.Window < 0 || j.QueueLimit < 0 || j.Early < 0 || j.NotWithin < 0 {
		fault("limits", "a limit is negative", "use a positive one, or leave it out")
	}
}
