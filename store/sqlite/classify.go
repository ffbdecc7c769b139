package sqlite

import (
	"errors"
	"strings"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// SQLite's primary result codes.
const (
	codePerm       = 3
	codeBusy       = 5
	codeLocked     = 6
	codeReadOnly   = 8
	codeIOErr      = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeProtocol   = 15
	codeTooBig     = 18
	codeConstraint = 19
	codeMismatch   = 20
	codeAuth       = 23
	codeNotADB     = 26
)

// classify asks the error for its code where the driver tells it as an int, and
// else goes by SQLite's own messages, which all drivers pass on and which have
// not changed in fifteen years.
func classify(err error) sqlstore.Class {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		if class, ok := byCode(coded.Code()&0xff, err.Error()); ok {
			return class
		}
	}
	return byText(err.Error())
}

func byCode(code int, text string) (sqlstore.Class, bool) {
	switch code {
	case codeBusy, codeLocked, codeProtocol:
		return sqlstore.ClassRetry, true
	case codeReadOnly, codePerm, codeIOErr, codeCorrupt, codeFull, codeCantOpen, codeNotADB:
		return sqlstore.ClassUnavailable, true
	case codeConstraint:
		if strings.Contains(text, "UNIQUE") || strings.Contains(text, "PRIMARY KEY") {
			return sqlstore.ClassUnique, true
		}
		return sqlstore.ClassData, true
	case codeTooBig, codeMismatch:
		return sqlstore.ClassData, true
	case codeAuth:
		return sqlstore.ClassDenied, true
	}
	return sqlstore.ClassOther, false
}

func byText(text string) sqlstore.Class {
	for _, known := range []struct {
		part  string
		class sqlstore.Class
	}{
		{"database is locked", sqlstore.ClassRetry},
		{"database table is locked", sqlstore.ClassRetry},
		{"database schema is locked", sqlstore.ClassRetry},
		{"locking protocol", sqlstore.ClassRetry},
		{"UNIQUE constraint failed", sqlstore.ClassUnique},
		{"PRIMARY KEY constraint failed", sqlstore.ClassUnique},
		{"constraint failed", sqlstore.ClassData},
		{"cannot store ", sqlstore.ClassData}, // a STRICT table and a value of another type
		{"datatype mismatch", sqlstore.ClassData},
		{"string or blob too big", sqlstore.ClassData},
		{"no such table", sqlstore.ClassMissing},
		{"no such column", sqlstore.ClassMissing},
		{"has no column named", sqlstore.ClassMissing},
		{"attempt to write a readonly database", sqlstore.ClassUnavailable},
		{"unable to open database", sqlstore.ClassUnavailable},
		{"disk I/O error", sqlstore.ClassUnavailable},
		{"database disk image is malformed", sqlstore.ClassUnavailable},
		{"file is not a database", sqlstore.ClassUnavailable},
		{"database or disk is full", sqlstore.ClassUnavailable},
		{"access permission denied", sqlstore.ClassUnavailable},
		{"not authorized", sqlstore.ClassDenied},
	} {
		if strings.Contains(text, known.part) {
			return known.class
		}
	}
	return sqlstore.ClassOther
}
