package cli

import (
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// allowUsage is the help of --allow.
const allowUsage = "accept a database setting that may forget commits, such as synchronous_commit, by its name"

// checkAllowed refuses a misspelt --allow.
func checkAllowed(names []string) error {
	for _, n := range names {
		if !slices.Contains(sqlstore.ForgetfulSettings(), n) && n != "fsync" && n != "full_page_writes" {
			return usageError("--allow %s: it is none of %s, fsync, full_page_writes", visible(n), strings.Join(sqlstore.ForgetfulSettings(), ", "))
		}
	}
	return nil
}
