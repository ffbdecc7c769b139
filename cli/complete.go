package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// completeJobs offers the names of the jobs to the shell. Faults of the file are
// not its business.
func (a *app) completeJobs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	file, err := a.config(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	add := func(name string) {
		if strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	if file != nil {
		for _, j := range file.Jobs {
			add(j.Name)
		}
	}
	for _, j := range a.program.Jobs {
		add(j.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
