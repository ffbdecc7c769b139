package postgres

import (
	"errors"
	"io"
	"net"
	"strings"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// classify goes by SQLSTATE, which the errors of pgx and lib/pq tell.
func classify(err error) sqlstore.Class {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return byState(coded.SQLState())
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return sqlstore.ClassConnection
	}
	for _, said := range []string{"conn closed", "failed to connect", "conn busy", "connection is already closed"} {
		if strings.Contains(err.Error(), said) {
			return sqlstore.ClassConnection
		}
	}
	return sqlstore.ClassOther
}

func byState(state string) sqlstore.Class {
	switch state {
	case "40001", "40P01", "55P03":
		return sqlstore.ClassRetry // serialization failure, deadlock, lock time-out
	case "23505":
		return sqlstore.ClassUnique
	case "25006":
		return sqlstore.ClassReadOnly
	case "42P01", "42703", "3F000":
		return sqlstore.ClassMissing
	case "42501":
		return sqlstore.ClassDenied
	case "57P01", "57P02", "57P03", "53300":
		return sqlstore.ClassConnection // shutting down, crashed, starting up, too many
	case "3D000", "53100":
		return sqlstore.ClassUnavailable // no such database, disk full
	case "42804", "42846":
		return sqlstore.ClassData // a value of another type
	}
	if len(state) < 2 {
		return sqlstore.ClassOther
	}
	switch state[:2] {
	case "08":
		return sqlstore.ClassConnection
	case "22", "23", "44":
		return sqlstore.ClassData
	case "P0", "09", "21", "27", "38", "39":
		return sqlstore.ClassData // what a trigger of the table's own raises
	case "28":
		return sqlstore.ClassUnavailable // who are you?
	case "XX":
		return sqlstore.ClassUnavailable
	}
	return sqlstore.ClassOther
}
