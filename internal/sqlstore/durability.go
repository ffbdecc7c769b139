package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/dibs-run/dibs"
)

// Durability lists the settings by which this database may forget a commit, and
// so issue a fence twice; none is good. Each begins with the setting's name.
func (s *Store) Durability(ctx context.Context) (faults []string, err error) {
	st, err := s.own("durability")
	if err != nil {
		return nil, err
	}
	err = s.reading(ctx, "read the durability settings", func() error {
		faults = nil
		return query(ctx, s.db, st, nil, func(rows *sql.Rows) error {
			var fault string
			err := rows.Scan(into(&fault))
			faults = append(faults, fault)
			return err
		})
	})
	return faults, err
}

// ForgetfulSettings are those by which commits that were answered are lost when
// the server or the machine merely restarts: nobody claims over them unless they
// are allowed by name. Others only matter when a crash destroys the files.
func ForgetfulSettings() []string {
	return []string{"synchronous_commit", "innodb_flush_log_at_trx_commit", "synchronous", "journal_mode"}
}

// checkDurability turns the faults into findings.
func (s *Store) checkDurability(ctx context.Context) ([]Finding, error) {
	faults, err := s.Durability(ctx)
	if err != nil {
		return nil, err
	}
	if len(faults) == 0 {
		return []Finding{{Severity: Fine, Code: "durability", Subject: "database", Problem: "commits are durable"}}, nil
	}
	var found []Finding
	for _, fault := range faults {
		found = append(found, durabilityFinding(fault))
	}
	return found, nil
}

func durabilityFinding(fault string) Finding {
	problem, fix, _ := strings.Cut(fault, "; ")
	setting, _, _ := strings.Cut(fault, " ")
	f := Finding{Doubtful, "durability", "setting " + setting, problem, "a lost commit is a claim that two can win, with one fence", fix}
	if slices.Contains(ForgetfulSettings(), setting) {
		f.Severity = Wrong
	}
	return f
}

// AllowSettings makes facts of the findings about durability whose settings are
// allowed by name.
func AllowSettings(found []Finding, allowed []string) {
	for i, f := range found {
		setting := strings.TrimPrefix(f.Subject, "setting ")
		if f.Code == "durability" && f.Severity != Fine && slices.Contains(allowed, setting) {
			found[i].Severity, found[i].Fix = Noted, ""
		}
	}
}

// RefuseForgetful is an error for every setting that may make the database forget
// a commit and is not allowed by name; each is a [dibs.ConfigError].
func RefuseForgetful(faults, allowed []string) (refused []error) {
	for _, fault := range faults {
		f := durabilityFinding(fault)
		setting := strings.TrimPrefix(f.Subject, "setting ")
		if f.Severity == Wrong && !slices.Contains(allowed, setting) {
			refused = append(refused, &dibs.ConfigError{Subject: "database", Field: setting, Problem: strings.TrimPrefix(f.Problem, setting+" ") + ": " + f.Why,
				Fix: f.Fix + ", or allow it with --allow " + setting})
		}
	}
	return refused
}
