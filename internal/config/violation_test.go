package config

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// violation says where a value breaks a JSON Schema, or "". It knows the
// keywords that our schema uses and panics at any other, so that none is
// passed over.
func violation(root, schema map[string]any, v any, at string) string {
	for keyword, arg := range schema {
		if problem := breaks(root, schema, keyword, arg, v, at); problem != "" {
			return problem
		}
	}
	return ""
}

func breaks(root, schema map[string]any, keyword string, arg, v any, at string) string {
	fail := func(ok bool) string {
		if ok {
			return ""
		}
		return fmt.Sprintf("%s: %v breaks %s %v", at, v, keyword, arg)
	}
	object, _ := v.(map[string]any)
	items, isList := v.([]any)
	str, isText := v.(string)
	number, isNumber := v.(float64)
	switch keyword {
	case "$schema", "$defs", "title", "description":
		return ""
	case "$ref":
		name := strings.TrimPrefix(arg.(string), "#/$defs/")
		return violation(root, root["$defs"].(map[string]any)[name].(map[string]any), v, at)
	case "type":
		return fail(typeOf(v) == arg || arg == "number" && isNumber)
	case "enum":
		return fail(slices.Contains(arg.([]any), v))
	case "pattern":
		return fail(!isText || regexp.MustCompile(arg.(string)).MatchString(str))
	case "minimum":
		return fail(!isNumber || number >= arg.(float64))
	case "maximum":
		return fail(!isNumber || number <= arg.(float64))
	case "minItems":
		return fail(!isList || float64(len(items)) >= arg.(float64))
	case "required":
		for _, name := range arg.([]any) {
			if _, there := object[name.(string)]; object != nil && !there {
				return fail(false)
			}
		}
		return ""
	case "anyOf":
		return fail(slices.ContainsFunc(arg.([]any), func(s any) bool {
			return violation(root, s.(map[string]any), v, at) == ""
		}))
	case "items":
		for i, item := range items {
			if problem := violation(root, arg.(map[string]any), item, fmt.Sprintf("%s[%d]", at, i)); problem != "" {
				return problem
			}
		}
		return ""
	case "properties", "additionalProperties":
		return members(root, schema, keyword, arg, object, at)
	}
	panic("the schema uses the keyword " + keyword)
}

func members(root, schema map[string]any, keyword string, arg any, object map[string]any, at string) string {
	known, _ := schema["properties"].(map[string]any)
	for name, value := range object {
		member, isKnown := known[name]
		if keyword == "additionalProperties" && !isKnown {
			member = arg
		} else if keyword != "properties" || !isKnown {
			continue
		}
		switch s := member.(type) {
		case bool:
			if !s {
				return at + ": unknown field " + name
			}
		case map[string]any:
			if problem := violation(root, s, value, join(at, name)); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		_, isNumber := v.(json.Number)
		return fmt.Sprint(isNumber)
	}
}
