package storetest

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"io"
)

// answer is a result that was read to its end.
type answer struct {
	columns []string
	rows    [][]driver.Value
}

func readAnswer(rows driver.Rows) (*answer, error) {
	all := &answer{columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(all.columns))
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return all, rows.Close()
		}
		if err != nil {
			_ = rows.Close() // what went wrong is known
			return nil, err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok { // drivers use their buffers again
				row[i] = bytes.Clone(b)
			}
		}
		all.rows = append(all.rows, row)
	}
}

// Columns are the names of the columns.
func (a *answer) Columns() []string { return a.columns }

// Close ends the reading.
func (a *answer) Close() error { return nil }

// Next gives the next row.
func (a *answer) Next(into []driver.Value) error {
	if len(a.rows) == 0 {
		return io.EOF
	}
	copy(into, a.rows[0])
	a.rows = a.rows[1:]
	return nil
}
