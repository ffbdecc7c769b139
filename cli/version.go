package cli

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Say which version this is",
		Example: "  dibs version --json",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command(groupSetup, c, func(*cobra.Command, []string) error {
		if !asJSON {
			a.out.line("%s %s %s/%s %s", a.program.Name, a.program.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return nil
		}
		return a.out.json(struct {
			Name    string `json:"name"`
			Version string `json:"version"`
			Go      string `json:"go"`
			OS      string `json:"os"`
			Arch    string `json:"arch"`
		}{a.program.Name, a.program.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH})
	})
}
