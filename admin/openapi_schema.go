package admin

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// schemas are the named ones, by the name of the type without its "View".
type schemas map[string]object

// of is the schema of v's type: a reference, for a struct.
func (all schemas) of(v any) object { return all.ofType(reflect.TypeOf(v)) }

func (all schemas) ofType(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return orNull(all.ofType(t.Elem()))
	case reflect.Struct:
		return all.ofStruct(t)
	case reflect.Slice:
		return object{"type": "array", "items": all.ofType(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": all.ofType(t.Elem())}
	case reflect.Interface:
		return object{}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	}
	panic(fmt.Sprintf("a view has a %s", t)) // found by the first test that asks for the description
}

func orNull(schema object) object {
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []string{kind, "null"}
		return schema
	}
	return object{"anyOf": []object{schema, {"type": "null"}}}
}

func (all schemas) ofStruct(t reflect.Type) object {
	name := schemaName(t)
	reference := object{"$ref": "#/components/schemas/" + name}
	if _, done := all[name]; done {
		return reference
	}
	properties, required := object{}, []string{}
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	all[name] = schema // before its fields, which may be of the same type
	for _, f := range fieldsOf(t) {
		property := all.ofType(f.kind)
		if about := aboutField(f.name, name, f.owner); about != "" {
			property["description"] = about
		}
		if isTime(f.name) {
			property["format"] = "date-time"
		}
		properties[f.name] = property
		if !f.optional && !strings.HasSuffix(name, "Body") { // a body may have as little as there is to say
			required = append(required, f.name)
		}
	}
	schema["required"] = required
	return reference
}

// schemaName is inflightView's "Inflight" and inflightList's "InflightList".
func schemaName(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "View")
	return strings.ToUpper(name[:1]) + name[1:]
}

// field is a key of a JSON object.
type field struct {
	name     string
	kind     reflect.Type
	owner    string // the schema of the struct it stands in, which may be an embedded one
	optional bool   // the key is left out when there is nothing
}

// fieldsOf lists what encoding/json writes of a struct, those of embedded structs
// too.
func fieldsOf(t reflect.Type) (fields []field) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		switch {
		case f.Anonymous && tag == "":
			fields = append(fields, fieldsOf(f.Type)...)
		case tag == "" || tag == "-":
			// not a part of the answer
		default:
			name, options, _ := strings.Cut(tag, ",")
			fields = append(fields, field{name, f.Type, schemaName(t), slices.Contains(strings.Split(options, ","), "omitempty")})
		}
	}
	return fields
}

// isTime goes by the name: times end with _at, but for these.
func isTime(name string) bool {
	return strings.HasSuffix(name, "_at") || slices.Contains([]string{"now", "at", "since", "start"}, name)
}

// aboutField is what a field means: by the word of its own schema, if there is
// one, since "state" is not the same of an exec and of a process.
func aboutField(name string, schemas ...string) string {
	for _, schema := range schemas {
		if about, ok := words[schema+"."+name]; ok {
			return about
		}
	}
	return words[name]
}
