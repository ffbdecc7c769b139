package config

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestScheduleReachesTheJob(t *testing.T) {
	f, err := Load(context.Background(), write(t, `
defaults: {overlap: skip, on_uncertain: replay, time_zone: Europe/Amsterdam}
jobs:
  timed: {schedule: "0 9 * * *"}
  other: {schedule: "30 9 * * *"}
  bare: {}
`), environment)
	if err != nil {
		t.Fatal(err)
	}
	timed, err := f.Job("timed").Dibs()
	if err != nil || timed.Schedule != f.Job("timed").ParsedSchedule() || timed.Schedule == nil {
		t.Errorf("the schedule is %v, %v", timed.Schedule, err)
	}
	bare, err := f.Job("bare").Dibs()
	if err != nil || bare.Schedule != nil || f.Job("bare").ParsedSchedule() != nil {
		t.Errorf("a job without a schedule has %v, %v", bare.Schedule, err)
	}
	if a, b := f.Job("timed").ParsedSchedule().Location(), f.Job("other").ParsedSchedule().Location(); a != b {
		t.Error("two jobs of a file loaded one zone twice")
	}
}

// The column of a fault counts characters, not bytes.
func TestScheduleFaultsPointIntoTheText(t *testing.T) {
	for line, column := range map[string]int{
		`  ä: {schedule: "0 25 * * *"}`:          20,
		`  ä: {schedule: 'ö 25 * * *'}`:          20,
		`  ä: {schedule: 'ö 9 * * *'}`:           18,
		`  ä: {schedule: 0 9 32 * *}`:            21,
		`  ä: {schedule: "CRON_TZ=Mars @daily"}`: 26,
		`  ä: {schedule: "\x30 25 * * *"}`:       17, // an escape: the text is not there
		`  ä: {schedule: "${X:-0 25 * * *}"}`:    17,
		`  ä: {schedule: {cron: "0  9 * * 8"}}`:  34,
	} {
		_, err := Load(context.Background(), write(t, "defaults: {overlap: skip, on_uncertain: replay, time_zone: UTC}\njobs:\n"+line+"\n"), environment)
		var fault *Fault
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), fmt.Sprintf(":3:%d: ", column)) || !strings.Contains(fault.Config.Field, "jobs.ä.schedule") {
			t.Errorf("%s: want column %d: %v", line, column, err)
		}
	}
}
