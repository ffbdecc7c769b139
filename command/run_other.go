//go:build !unix

package command

import (
	"context"
	"os"
)

// Run needs process groups and Unix signals: here it starts nothing and gives
// ErrUnsupported.
func Run(context.Context, Config) (Result, error) {
	return notStarted(ErrUnsupported)
}

// Forwardable lists the signals that a wrapper should pass on.
func Forwardable() []os.Signal { return []os.Signal{os.Interrupt} }
