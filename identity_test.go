package dibs_test

import (
	"encoding/json"
	"testing"

	"github.com/dibs-run/dibs"
)

// B39: different values never make the same work ID, and NULL is no value.
func TestCaseB39WorkIDsNeverCollide(t *testing.T) {
	j := &dibs.Job{Name: "j", Identity: "{job}/{key}/v{version}", Source: dibs.Table{Keys: []string{"a", "b"}, Select: []string{"version"}}}
	id, err := dibs.IdentityOf(j, false)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]dibs.Key{}
	for _, key := range []dibs.Key{{"1", "23"}, {"12", "3"}, {"1/2", "3"}, {"1", "2/3"}, {"1%2F2", "3"}, {"1\n", "3"}, {"1", "\n3"}} {
		work, err := id.WorkID(dibs.Subject{Job: "j", Key: key, Payload: json.RawMessage(`{"version": 7}`)})
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[work]; twice {
			t.Errorf("%q and %q both make %s", other, key, work)
		}
		seen[work] = key
	}
	for _, payload := range []string{`{"version": null}`, `{"version": ""}`, `{}`, ``} {
		if work, err := id.WorkID(dibs.Subject{Job: "j", Key: dibs.Key{"1", "2"}, Payload: json.RawMessage(payload)}); err == nil {
			t.Errorf("%s makes %s", payload, work)
		}
	}
	if work, err := id.WorkID(dibs.Subject{Job: "j", Key: dibs.Key{"", "2"}, Payload: json.RawMessage(`{"version": 7}`)}); err == nil {
		t.Errorf("an empty part makes %s", work)
	}
}
