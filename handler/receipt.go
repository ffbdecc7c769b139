package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-run/dibs"
)

const (
	maxReceiptID     = 1000 // bytes
	maxEvidence      = 32   // fields
	maxEvidenceName  = 100  // bytes
	maxEvidenceValue = 1000 // bytes
	// problemField is the evidence field that says why a receipt is incomplete.
	problemField = "problem"
)

// pointer is a JSON pointer (RFC 6901), split into its tokens.
type pointer []string

func parsePointer(s string) (pointer, error) {
	if s == "" {
		return pointer{}, nil
	}
	if s[0] != '/' {
		return nil, errors.New("a JSON pointer begins with /, as in /id")
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens, nil
}

// find walks a decoded document.
func (p pointer) find(doc any) (any, bool) {
	for _, token := range p {
		switch d := doc.(type) {
		case map[string]any:
			next, ok := d[token]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			i, ok := index(token, len(d))
			if !ok {
				return nil, false
			}
			doc = d[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// index reads an array index as RFC 6901 writes it: digits without leading zeros.
func index(token string, length int) (int, bool) {
	if token == "" || len(token) > 9 || (token[0] == '0' && len(token) > 1) {
		return 0, false
	}
	i := 0
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int(c-'0')
	}
	return i, i < length
}

// decodeJSON reads exactly one document, numbers as they are written.
func decodeJSON(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, errors.New("it is not JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON document")
	}
	return doc, nil
}

// scalarText is a JSON value as text; nested values as compact JSON.
func scalarText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	b, err := json.Marshal(v)
	if err != nil { // not reachable for decoded JSON
		return ""
	}
	return string(b)
}

// receiptID accepts a value as the destination's own name for what it did.
func receiptID(v any) (string, error) {
	switch v.(type) {
	case string, json.Number:
	default:
		return "", errors.New("neither a string nor a number")
	}
	id := scalarText(v)
	switch {
	case id == "":
		return "", errors.New("empty")
	case len(id) > maxReceiptID:
		return "", fmt.Errorf("longer than %d bytes", maxReceiptID)
	case !plain(id):
		return "", errors.New("not plain text")
	}
	return id, nil
}

// addEvidence keeps a value, cut and cleaned. Fields beyond the limit are
// dropped.
func addEvidence(r *dibs.Receipt, name string, v any) {
	if r.Evidence == nil {
		r.Evidence = map[string]string{}
	}
	name = quoteStart([]byte(name), maxEvidenceName)
	if _, known := r.Evidence[name]; name == "" || (!known && len(r.Evidence) >= maxEvidence) {
		return
	}
	r.Evidence[name] = quoteStart([]byte(scalarText(v)), maxEvidenceValue)
}

// noteProblem says in the receipt why it is incomplete.
func noteProblem(r *dibs.Receipt, problem string) {
	if len(r.Evidence) >= maxEvidence {
		clear(r.Evidence)
	}
	addEvidence(r, problemField, problem)
}

// lineReceipt reads the receipt that a process may print as a line. A line that
// is not a JSON object, or one without id, ids and evidence, is output like any
// other. The ids of a lookup are returned beside it.
func lineReceipt(line []byte, whole bool) (r dibs.Receipt, ids []string) {
	if !whole {
		noteProblem(&r, "the last line of output is too long to be a receipt")
		return r, nil
	}
	if len(line) == 0 || line[0] != '{' {
		return r, nil
	}
	doc, err := decodeJSON(line)
	if err != nil {
		noteProblem(&r, "the last line of output begins like a receipt, but "+err.Error())
		return r, nil
	}
	return objectReceipt(doc.(map[string]any))
}

// objectReceipt reads the receipt fields of a decoded object.
func objectReceipt(object map[string]any) (r dibs.Receipt, ids []string) {
	if evidence, ok := object["evidence"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(evidence)) {
			addEvidence(&r, name, evidence[name])
		}
	}
	if v, ok := object["id"]; ok && v != nil {
		id, err := receiptID(v)
		if err != nil {
			noteProblem(&r, "id: "+err.Error())
		}
		r.ID = id
	}
	list, _ := object["ids"].([]any)
	for _, v := range list {
		if id, err := receiptID(v); err == nil {
			ids = append(ids, id)
		}
	}
	return r, ids
}
