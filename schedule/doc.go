// Package schedule computes slots: the instants at which a job is due. It is
// pure: no clock, no goroutine, no store. It knows nothing of jobs, runs,
// policies or misfires; it reads files only for zone data.
//
// # Expressions
//
//	*/5 * * * *                      minute hour day-of-month month day-of-week
//	30 */5 * * * *                   with Spec.Seconds: second first
//	@daily                           a macro
//	@every 90s                       elapsed time from Spec.Anchor
//	at 2027-01-01T00:00:00Z          one instant, RFC 3339
//	CRON_TZ=Europe/Amsterdam 0 9 * * 1-5
//
// A cron schedule needs a zone, as Spec.Zone or as CRON_TZ= (or TZ=) before
// the expression; none is assumed. A zone is the exact IANA name, letter case
// included, or UTC; Local and the empty name are refused. Zone data is taken
// from $ZONEINFO, else from the host, else from the copy in the binary;
// [TZDataVersion] tells which.
//
//	field          values    names
//	second         0-59
//	minute         0-59
//	hour           0-23
//	day-of-month   1-31
//	month          1-12      JAN-DEC
//	day-of-week    0-7       SUN-SAT; 0 and 7 are Sunday
//
//	*        every value
//	?        the same, in the two day fields
//	7        one value
//	1-5      a range; it may wrap: 22-2, FRI-MON, NOV-FEB
//	*/15     every 15th value from the field's first; 8-18/2 within a range;
//	         5/15 from 5 to the field's last
//	1,15,20  a list of any of these
//
// Names may be in either case. A step that leaves one value (*/90 in minutes)
// is refused: it is not "every 90 minutes", which is @every 90m.
//
//	L        day-of-month: the last day;   L-3: three days before it
//	15W      day-of-month: the Monday to Friday nearest to the 15th, in the
//	         same month;                   LW: the last Monday to Friday
//	FRI#2    day-of-week: the second Friday of the month, up to #5; also 5#2
//	FRIL     day-of-week: the last Friday of the month; also 5L
//
//	@yearly @annually   0 0 1 1 *
//	@monthly            0 0 1 * *
//	@weekly             0 0 * * 0
//	@daily @midnight    0 0 * * *
//	@hourly             0 * * * *
//
// Durations of @every are Go's (90s, 15m, 1h30m), whole seconds, at least one.
// The slots are Anchor plus every multiple, before the anchor too; a zero
// Anchor is 1970-01-01T00:00:00Z, so a restart moves nothing.
//
// # Both day fields
//
// Where day-of-month and day-of-week are both given, the classic rule holds:
// a day matches if either field does, but if one of them begins with a star
// (or ?), both must. So "0 0 13 * 5" fires on each 13th and each Friday,
// "0 0 */2 * 1" on Mondays with an odd date, and "0 0 1-31/2 * 1" on Mondays
// and on odd dates. DaysBoth always asks for both. [Schedule.Warnings] shows
// the difference with dates.
//
// # Changes of the clock
//
// The hour field decides. A schedule whose hour is a *, has a step, or lists
// all 24 hours follows elapsed time; any other is a fixed time.
//
//	                         fixed time                        follows elapsed time
//	wall time is missing     fires once, at the first          is dropped, unless that leaves a hole longer
//	                         instant after the gap             than the largest distance within regular days
//	                                                           plus the shift: then as a fixed time
//	wall time occurs twice   fires at the first pass           fires at both passes
//
// DST.Missing (shift, skip) and DST.Repeated (first, last, both) replace these
// defaults. Several missing times of one gap make one slot, and so do a
// missing time and a regular one at the same instant. In Berlin on 2027-03-28
// "30 2 * * *" fires at 03:00, "30 * * * *" at 01:30 and 03:30; on 2027-10-31
// "30 2 * * *" fires once and "* * * * *" 120 times between two and three.
//
// # Slots
//
// A slot is an instant in UTC on a whole second in the years 1 to 9999, and the
// instant is its identity: the two passes of an hour differ, and Jitter delays
// the start ([Schedule.Delay]) without changing the slot. A schedule that can
// never fire is refused when it is parsed: the calendar repeats after 400
// years, so the search ends. Neither the distance to the next slot nor the
// number of missed ones makes Next, Prev or Count slow: they jump.
package schedule
