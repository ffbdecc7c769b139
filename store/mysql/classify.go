package mysql

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// classify goes by the server's error number.
func classify(err error) sqlstore.Class {
	if number := numberOf(err); number != 0 {
		return byNumber(number)
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return sqlstore.ClassConnection
	}
	for _, said := range []string{"invalid connection", "bad connection", "busy buffer"} {
		if strings.Contains(err.Error(), said) {
			return sqlstore.ClassConnection
		}
	}
	return sqlstore.ClassOther
}

// numberOf reads the number out of "Error 1213 (40001): …", which is how the
// usual driver prints the server's error; its type has no method to ask.
func numberOf(err error) int {
	switch wrapped := err.(type) { //nolint:errorlint // it unwraps by itself, to ask every branch
	case interface{ Unwrap() error }:
		if inner := wrapped.Unwrap(); inner != nil {
			return numberOf(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapped.Unwrap() {
			if n := numberOf(inner); n != 0 {
				return n
			}
		}
		return 0
	}
	rest, ok := strings.CutPrefix(err.Error(), "Error ")
	if !ok {
		return 0
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, _ := strconv.Atoi(digits) // no digits: zero
	return n
}

// byNumber knows the numbers of both servers.
func byNumber(n int) sqlstore.Class {
	switch n {
	case 1213, 1205, 3572, 1020:
		return sqlstore.ClassRetry // deadlock or failed certification, lock time-out, changed since read
	case 1062, 1586:
		return sqlstore.ClassUnique
	case 1290, 1792, 1836, 3989:
		return sqlstore.ClassReadOnly
	case 1146, 1054, 1109:
		return sqlstore.ClassMissing
	case 1044, 1142, 1143, 1227, 1370, 1410:
		return sqlstore.ClassDenied
	case 1045, 1049, 1114, 1021, 1698, 1130:
		return sqlstore.ClassUnavailable // password, no such database, full, host not allowed
	case 1040, 1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1927, 2006, 2013, 4031:
		return sqlstore.ClassConnection // too many, node not ready, shutting down, aborted, killed
	case 1048, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1452, 1451, 1690, 3140, 3819, 4025, 3988, 1300, 1526:
		return sqlstore.ClassData
	case 1644, 1643, 1172, 1242, 1329, 1442:
		return sqlstore.ClassData // what a trigger of the table's own raises
	}
	return sqlstore.ClassOther
}
