//go:build unix

package handler_test

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
)

func ExampleExec() {
	handle, err := handler.Exec(handler.ExecConfig{
		Argv: []string{"/bin/sh", "-c", `echo "syncing $DIBS_KEY"; echo '{"id": "n-17"}'`},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := handle(context.Background(), dibs.Item{Job: "crm-sync", Key: dibs.Key{"42"}})
	fmt.Println(receipt.ID, err)
	// Output:
	// n-17 <nil>
}
