package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// adoptFlags are the choices of adopt.
type adoptFlags struct {
	act
	schema, where, job string
	keys               []string
	columns, labels    map[string]string
	oneShot            bool
	lease              time.Duration
	apply, json        bool
	allow              []string
}

func (a *app) adoptCommand() *cobra.Command {
	var f adoptFlags
	c := &cobra.Command{
		Use:   "adopt TABLE --key COLUMN",
		Short: "Make a table of yours claimable",
		Long: "Prints what your table needs so that its rows can be claimed: a few columns, an\n" +
			"index, and the matching part of dibs.yaml, with what each step locks. With --apply\n" +
			"it does so, in small steps that give up rather than make others wait, and then\n" +
			"opens the table to prove that it can be claimed. Doing it twice changes nothing;\n" +
			"an interrupted attempt is continued.",
		Example: "  dibs adopt account_config --key account_id\n" +
			"  dibs adopt crm.accounts --key tenant,id --where enabled --column status=sync_status --apply\n" +
			"  dibs adopt mails --key id --one-shot --label done=SENT --apply",
		Args: cobra.ExactArgs(1),
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.keys, "key", nil, "the key column, or several for a composite key (required)")
	fl.StringVar(&f.schema, "schema", "", "the table's schema, when a name holds a dot")
	fl.StringVar(&f.where, "where", "", "restrict which rows are claimed: one SQL expression over the table's columns")
	fl.BoolVar(&f.oneShot, "one-shot", false, "rows are done after one success; else they come again")
	fl.StringToStringVar(&f.columns, "column", nil, "map a column of ours to the table's own, such as status=sync_status")
	fl.StringToStringVar(&f.labels, "label", nil, "map a state to the table's own label, such as idle=READY")
	fl.StringVar(&f.job, "job", "", "the job's name in the printed configuration (default: the table's)")
	fl.DurationVar(&f.lease, "lease", time.Minute, "the lease that rows already in progress get")
	fl.StringSliceVar(&f.allow, "allow", nil, allowUsage)
	fl.BoolVar(&f.apply, "apply", false, "do it; without this nothing is changed")
	fl.BoolVar(&f.json, "json", false, "write JSON")
	f.flags(c)
	return command(groupSetup, c, func(cmd *cobra.Command, args []string) error {
		if len(f.keys) == 0 {
			return usageError("name the key with --key: claims must be able to name one row")
		}
		t, err := f.table(args[0])
		if err != nil {
			return err
		}
		return a.adopt(cmd.Context(), t, f)
	})
}

// table is the mapping that the flags describe.
func (f adoptFlags) table(name string) (dibs.Table, error) {
	t := dibs.Table{Schema: f.schema, Name: name, Where: f.where, OneShot: f.oneShot}
	if f.schema == "" {
		switch parts := strings.Split(name, "."); {
		case slices.Contains(parts, "") || len(parts) > 2:
			return t, usageError("%q is not TABLE or SCHEMA.TABLE: use --schema when a name holds a dot", name)
		case len(parts) == 2:
			t.Schema, t.Name = parts[0], parts[1]
		}
	}
	if !f.oneShot {
		t.Every = dibs.Always // the printed configuration asks; it makes no difference to the table
	}
	if len(f.keys) == 1 {
		t.Key = f.keys[0]
	} else {
		t.Keys = f.keys
	}
	if err := assign(f.columns, columnFields(&t.Columns), "--column"); err != nil {
		return t, err
	}
	return t, assign(f.labels, labelFields(&t.Labels), "--label")
}

// named is a field by its name in dibs.yaml.
type named struct {
	name string
	into *string
}

func columnFields(c *dibs.Columns) []named {
	return []named{
		{"status", &c.Status}, {"started_at", &c.StartedAt}, {"claimable_at", &c.ClaimableAt},
		{"claim_token", &c.ClaimToken}, {"fence", &c.Fence}, {"attempts", &c.Attempts}, {"expirations", &c.Expirations},
		{"cycle", &c.Cycle}, {"last_success_at", &c.LastSuccessAt}, {"last_error", &c.LastError},
	}
}

func labelFields(l *dibs.Labels) []named {
	return []named{
		{"idle", &l.Idle}, {"in_progress", &l.InProgress}, {"failed", &l.Failed}, {"done", &l.Done}, {"quarantined", &l.Quarantined},
	}
}

// assign fills fields from the pairs of a flag.
func assign(values map[string]string, fields []named, flag string) error {
	for name, value := range values {
		i := slices.IndexFunc(fields, func(f named) bool { return f.name == strings.ToLower(name) })
		if i < 0 {
			var known []string
			for _, f := range fields {
				known = append(known, f.name)
			}
			return usageError("%s %s=%s: %q is none of %s", flag, name, value, name, strings.Join(known, ", "))
		}
		if value == "" {
			return usageError("%s %s=: the name is empty", flag, name)
		}
		*fields[i].into = value
	}
	return nil
}

// adopt plans, shows and, if asked to, carries out.
func (a *app) adopt(ctx context.Context, t dibs.Table, f adoptFlags) error {
	if err := checkAllowed(f.allow); err != nil {
		return err
	}
	connect := func() (Store, error) { return a.connect(ctx, false) }
	if f.apply { // the act is recorded in our own tables
		connect = func() (Store, error) { return a.open(ctx) }
	}
	store, err := connect()
	if err != nil {
		return err
	}
	faults, err := store.Durability(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(sqlstore.RefuseForgetful(faults, f.allow)...); err != nil {
		return err
	}
	plan, err := store.PlanAdoption(ctx, sqlstore.Adoption{Table: t, Lease: f.lease})
	if err != nil {
		return err
	}
	stanza := f.stanza(t)
	if !f.json {
		a.showPlan(plan, f)
	}
	if f.apply && len(plan.Steps) > 0 {
		if err := a.applyPlan(ctx, store, plan, f); err != nil {
			return err
		}
	}
	if f.json {
		return a.out.json(struct {
			Table   string `json:"table"`
			Applied bool   `json:"applied"`
			*sqlstore.AdoptPlan
			Config string `json:"config"`
		}{plan.Table.String(), f.apply, plan, stanza})
	}
	a.out.line("\n# dibs.yaml\n%s", strings.TrimRight(stanza, "\n"))
	return nil
}

// showPlan writes the plan as a script with comments.
func (a *app) showPlan(plan *sqlstore.AdoptPlan, f adoptFlags) {
	if len(plan.Steps) == 0 {
		a.out.line("-- %s is claimable already: nothing to do", plan.Table)
		return
	}
	for _, n := range plan.Notes {
		a.out.line("-- %s", n)
	}
	for i, step := range plan.Steps {
		a.out.line("\n-- %d. %s", i+1, step.What)
		a.out.line("--    locks: %s", step.Locks)
		if step.Repeat {
			a.out.line("--    repeat this until it changes no row")
		}
		for _, sql := range step.SQL {
			a.out.line("%s;", sql)
		}
	}
	a.out.line("\n-- reset: to make one row due by hand\n-- %s;", plan.Reset)
	if !f.apply {
		a.out.line("\n-- nothing was changed: add --apply to do it, or run it with a tool of your own")
	}
}

// applyPlan carries the plan out and records who did.
func (a *app) applyPlan(ctx context.Context, store Store, plan *sqlstore.AdoptPlan, f adoptFlags) error {
	live := &liveLine{out: a.out}
	if !a.out.tty || f.json {
		live = nil
	}
	began := time.Now()
	err := store.ApplyAdoption(ctx, plan, func(step int, rows int64) {
		text := fmt.Sprintf("  step %d of %d: %s", step+1, len(plan.Steps), plan.Steps[step].What)
		if rows > 0 {
			text += fmt.Sprintf(", %d rows", rows)
		}
		live.show(text)
	})
	live.clear()
	if err != nil {
		return err
	}
	if err := store.Audit(ctx, dibs.AuditRecord{By: f.actor(), What: "adopt", Object: "table " + plan.Table.String(), Why: f.why, After: plan.Summary()}); err != nil {
		return err
	}
	if !f.json {
		a.out.line("\n-- done in %s: %s opens for claims", span(time.Since(began)), plan.Table)
	}
	return nil
}

// stanza is the part of dibs.yaml that fits the table.
func (f adoptFlags) stanza(t dibs.Table) string {
	name := f.job
	if name == "" {
		name = t.Name
	}
	var b strings.Builder
	line := func(indent int, format string, args ...any) {
		fmt.Fprintf(&b, strings.Repeat("  ", indent)+format+"\n", args...)
	}
	line(0, "jobs:")
	line(1, "%s:", yamlText(name))
	line(2, "overlap: allow            # rows exclude one another; skip: one run at a time")
	line(2, "on_uncertain: replay      # only if running an item again is harmless")
	line(2, "source:")
	line(3, "table: %s", yamlText(t.Name))
	if t.Schema != "" {
		line(3, "schema: %s", yamlText(t.Schema))
	}
	line(3, "key: %s", yamlList(t.KeyColumns()))
	if t.Where != "" {
		line(3, "where: %s", yamlText(t.Where))
	}
	if t.OneShot {
		line(3, "one_shot: true")
	} else {
		line(3, "every: 0s               # how long after a success a row is due again; 0s: in the next run")
	}
	line(3, "select: []                # the columns that the handler receives")
	for _, part := range []struct {
		name   string
		fields []named
	}{{"columns", columnFields(&t.Columns)}, {"labels", labelFields(&t.Labels)}} {
		var pairs []string
		for _, field := range part.fields {
			if *field.into != "" {
				pairs = append(pairs, field.name+": "+yamlText(*field.into))
			}
		}
		if len(pairs) > 0 {
			line(3, "%s: {%s}", part.name, strings.Join(pairs, ", "))
		}
	}
	line(2, "handler: {exec: [./handle]}   # or {http: {url: \"https://…\"}}")
	return b.String()
}

func yamlList(names []string) string {
	if len(names) == 1 {
		return yamlText(names[0])
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = yamlText(n)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// yamlText quotes a text unless it is a plain word. A dollar sign is doubled
// before a brace, since the file's values are interpolated.
func yamlText(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-' || r >= '0' && r <= '9')
	}) && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z' || s[0] == '_')
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, "${", "$${"), "'", "''") + "'"
}
