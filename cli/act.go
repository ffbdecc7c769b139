package cli

import (
	"os"
	"os/user"

	"github.com/spf13/cobra"
)

// act is who does something, and why: every act is recorded with both.
type act struct {
	by, why string
}

// flags adds --by and --why.
func (c *act) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.by, "by", "", "who does this (default: user@host)")
	cmd.Flags().StringVar(&c.why, "why", "", "why, for the record")
}

// actor is --by, or who runs this process.
func (c *act) actor() string {
	if c.by != "" {
		return c.by
	}
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
