package demo

import (
	"bytes"
	_ "embed" // the shipped files
	"encoding/csv"
	"fmt"
)

//go:embed data/accounts.csv
var accountsCSV []byte

//go:embed data/account_config.sql
var accountsSQL string

//go:embed data/dibs.yaml
var configYAML []byte

// account is one line of the shipped file.
type account struct {
	ID, Name, ExternalRef string
	Enabled               bool
}

// accounts reads the shipped file: 300 enabled accounts and a few disabled ones.
func accounts() ([]account, error) {
	lines, err := csv.NewReader(bytes.NewReader(accountsCSV)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read accounts.csv: %w", err)
	}
	all := make([]account, 0, len(lines))
	for _, l := range lines[1:] {
		all = append(all, account{ID: l[0], Name: l[1], ExternalRef: l[2], Enabled: l[3] == "1"})
	}
	return all, nil
}
