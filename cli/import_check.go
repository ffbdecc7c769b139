package cli

import (
	"fmt"
	"strings"

	"github.com/dibs-run/dibs/internal/crontab"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/schedule"
)

// checkCrontabs looks at crontabs, or at standard input, for what cron will not
// do as it reads.
func (a *app) checkCrontabs(args []string, f checkFlags) error {
	files, err := a.readTabs(args, importFlags{})
	if err != nil {
		return err
	}
	var all []checked
	for _, t := range files {
		var c checked
		for i, l := range t.lines {
			subject := fmt.Sprintf("%s line %d", t.name(), l.Number)
			switch l.Kind {
			case crontab.Bad:
				c.add(sqlstore.Wrong, "crontab_line", subject, l.Problem, "cron refuses the file, or leaves the line out", "correct it")
			case crontab.Entry:
				c.crontabEntry(t, i, subject)
			}
		}
		all = append(all, c)
	}
	return a.concludeCheck(all, f)
}

func (c *checked) crontabEntry(t *tabFile, i int, subject string) {
	l := t.lines[i]
	if l.HasInput {
		c.add(sqlstore.Doubtful, "crontab_percent", subject,
			fmt.Sprintf("an unescaped %% ends the command: cron runs %s", cutTo(visible(l.Shell()), 60)),
			"what follows it becomes the command's input, line by line", `write \% where a percent sign is meant`)
	}
	if l.Schedule == crontab.Reboot {
		return
	}
	zone := t.zones[i]
	if zone == "" {
		zone = "UTC"
	}
	if _, err := schedule.ParseExpr(l.Schedule, zone); err != nil {
		c.add(sqlstore.Doubtful, "crontab_schedule", subject, strings.ReplaceAll(err.Error(), "\n", "; "),
			"cron may read it in a way of its own", "write it so that both agree")
	}
}
