// Package config reads dibs.yaml: from text to validated definitions, with all
// faults of a file in one answer, each with its place, the offending line and
// the fix.
//
// A file passes five steps: text → nodes with positions (parse.go, node.go) →
// defaults merged below each job (merge.go) → Go values by the tags of the
// structs in types.go (decode.go) → checks across fields (validate.go) → the
// root package's [dibs.Job] (convert.go). A new field is one line in types.go;
// the JSON Schema and the reference page are generated from the same tags.
//
// Values may refer to the environment and to files (interpolate.go). That
// happens after parsing and only inside scalars, so that a value never adds
// structure; the text that history keeps is the text before it.
//
// This package must not know how anything is stored, scheduled, executed or
// shown: it opens no database. Package schedule reads schedules; SQL fragments
// stay text here, and the store that runs them checks them.
package config
