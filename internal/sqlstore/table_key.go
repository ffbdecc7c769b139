package sqlstore

import (
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
)

// possible tells whether a key can be that of a row. Some databases make a
// number of any text ("abc" is 0), which would find a row nobody asked for.
func (m *mapping) possible(key dibs.Key) bool {
	if len(key) != len(m.keys) {
		return false
	}
	for i, c := range m.keys {
		if !possiblePart(c, key[i]) {
			return false
		}
	}
	return true
}

func possiblePart(c Column, part string) bool {
	var err error
	switch c.Kind {
	case KindInt:
		_, err = strconv.ParseInt(part, 10, 64)
	case KindUint:
		_, err = strconv.ParseUint(part, 10, 64)
	case KindDecimal:
		if _, ok := new(big.Rat).SetString(part); !ok || strings.ContainsAny(part, "/eE") {
			return false
		}
	case KindBytes:
		_, err = hex.DecodeString(part)
	case KindDate:
		_, err = time.Parse(time.DateOnly, part)
	case KindEnum:
		for _, l := range c.Labels {
			if l == part {
				return true
			}
		}
		return false
	case KindText:
		return utf8.ValidString(part) && !strings.ContainsRune(part, 0)
	}
	return err == nil
}
