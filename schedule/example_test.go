package schedule_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/schedule"
)

func ExampleParseExpr() {
	s, err := schedule.ParseExpr("30 2 * * *", "Europe/Berlin")
	if err != nil {
		panic(err)
	}
	at := time.Date(2027, 3, 27, 0, 0, 0, 0, time.UTC)
	for range 3 {
		at, _ = s.Next(at)
		fmt.Println(at.In(s.Location()).Format(time.RFC3339), at.Format("15:04Z"))
		if effect := s.Effect(at); effect.Missing != "" {
			fmt.Println("  ", effect)
		}
	}
	// Output:
	// 2027-03-27T02:30:00+01:00 01:30Z
	// 2027-03-28T03:00:00+02:00 01:00Z
	//    2027-03-28 02:30:00 does not exist: fires at the first instant after
	// 2027-03-29T02:30:00+02:00 00:30Z
}

func ExampleParse_refused() {
	_, err := schedule.Parse(schedule.Spec{Cron: "*/90 * * * *", Zone: "europe/berlin"})
	fmt.Println(err)
	var fault *schedule.Error
	if errors.As(err, &fault) {
		fmt.Println(fault.Field)
	}
	// Output:
	// schedule: zone "europe/berlin": is not a time zone; did you mean Europe/Berlin?
	// schedule: minute "*/90" at byte 0: step 90 is larger than the range it divides (0 to 59), so only one value would be left; write a step of at most 59, or the single value; for every 90m of elapsed time use "@every 90m"
	// zone
}

func ExampleSchedule_Count() {
	s, err := schedule.ParseExpr("*/5 * * * *", "UTC")
	if err != nil {
		panic(err)
	}
	down := time.Date(2027, 1, 1, 22, 2, 0, 0, time.UTC)
	up := time.Date(2027, 1, 4, 6, 1, 0, 0, time.UTC)
	latest, _ := s.Prev(up)
	fmt.Println(s.Count(down, up), "missed, the latest at", latest.Format(time.RFC3339))
	// Output: 672 missed, the latest at 2027-01-04T06:00:00Z
}

func ExampleSchedule_Warnings() {
	s, err := schedule.ParseExpr("30 18 15-21 * 6", "UTC")
	if err != nil {
		panic(err)
	}
	for _, text := range s.Warnings(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(text)
	}
	// Output:
	// day-of-month 15-21 and day-of-week 6 are both restricted: by the classic rule it fires when either matches (2027-01-02, 2027-01-09, 2027-01-15, …); days: both would need both (2027-01-16, 2027-02-20, 2027-03-20, …)
}

func ExampleZones() {
	var zones schedule.Zones // shared by all schedules of the program
	for _, expr := range []string{"0 9 * * MON-FRI", "0 0 L * *", "*/15 8-18 * * *"} {
		s, err := zones.Parse(schedule.Spec{Cron: expr, Zone: "America/New_York"})
		if err != nil {
			panic(err)
		}
		fmt.Println(s.Describe())
	}
	// Output:
	// at 09:00 on MON-FRI, America/New_York
	// at 00:00 on day L of the month, America/New_York
	// every 15 minutes of hours 8-18, America/New_York
}
