package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/config"
	"github.com/dibs-run/dibs/schedule"
)

// caretErrors turns the faults of an expression into errors of usage that show
// the expression with a mark under the field at fault.
func caretErrors(err error, expr, subject string) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, part := range joined.Unwrap() {
			all = append(all, caretErrors(part, expr, subject))
		}
		return errors.Join(all...)
	}
	var fault *schedule.Error
	if !errors.As(err, &fault) {
		return err
	}
	problem := fault.Reason
	if text := cutTo(fault.Text, 60); text != "" {
		problem = strconv.Quote(text) + " " + problem
	}
	return &config.Fault{
		Config:  dibs.ConfigError{Subject: subject, Field: fault.Field, Problem: problem, Fix: flagFix(fault)},
		Excerpt: caret(expr, fault.Pos),
	}
}

// flagFix names the flag where package schedule, which knows none, names what a
// file would hold.
func flagFix(fault *schedule.Error) string {
	return strings.NewReplacer(
		"set seconds: true", "add --seconds",
		"seconds: true", "--seconds",
		"time_zone: ", "--zone ",
	).Replace(fault.Fix)
}

// parseExpr parses a schedule and shows its faults under the expression.
func parseExpr(spec schedule.Spec, subject string) (*schedule.Schedule, error) {
	s, err := schedule.Parse(spec)
	if err == nil {
		return s, nil
	}
	return nil, caretErrors(err, spec.Cron, subject)
}

// excerptWidth is the longest expression that is shown with a caret.
const excerptWidth = 120

// caret marks a byte of an expression, or is empty where that does not help.
func caret(expr string, pos int) string {
	shown := visible(expr)
	if pos < 0 || pos > len(expr) || len([]rune(shown)) > excerptWidth {
		return ""
	}
	return fmt.Sprintf("  %s\n  %s^", shown, strings.Repeat(" ", len([]rune(visible(expr[:pos])))))
}
