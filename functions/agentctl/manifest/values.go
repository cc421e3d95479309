package manifest

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value turns YAML into the values of JSON, and notes the line of each field. Numbers stay as the file has them.
func (f *fileReader) value(path string, node *yaml.Node) any {
	if f.lines[path] == 0 {
		f.lines[path] = node.Line
	}
	switch node.Kind {
	case yaml.DocumentNode:
		return f.value(path, node.Content[0])
	case yaml.AliasNode:
		return f.value(path, node.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, item := range node.Content {
			list[i] = f.value(fmt.Sprintf("%s[%d]", path, i), item)
		}
		return list
	case yaml.MappingNode:
		return f.object(path, node)
	case yaml.ScalarNode:
		return f.scalar(path, node)
	}
	return nil
}

func (f *fileReader) object(path string, node *yaml.Node) map[string]any {
	object := map[string]any{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.ShortTag() != "!!merge" {
			continue
		}
		for _, part := range mergedParts(value) { // the first one wins
			for name, inherited := range f.object(path, part) {
				if _, known := object[name]; !known {
					object[name] = inherited
				}
			}
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.ShortTag() == "!!merge" {
			continue
		}
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		f.lines[at] = key.Line
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" && key.ShortTag() != "!!int" {
			f.complain(at, "the key is no text: put it in quotes")
			continue
		}
		object[key.Value] = f.value(at, value)
	}
	return object
}

// mergedParts lists the objects that << takes fields from. YAML's own decoder has checked that they are objects.
func mergedParts(node *yaml.Node) []*yaml.Node {
	switch node.Kind { //nolint:exhaustive // others are refused before
	case yaml.AliasNode:
		return mergedParts(node.Alias)
	case yaml.SequenceNode:
		var parts []*yaml.Node
		for _, item := range node.Content {
			parts = append(parts, mergedParts(item)...)
		}
		return parts
	}
	return []*yaml.Node{node}
}

func (f *fileReader) scalar(path string, node *yaml.Node) any {
	switch node.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		_ = node.Decode(&b) // YAML's own decoder has checked it
		return b
	case "!!int", "!!float":
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value)
		}
		var value any
		if node.Decode(&value) == nil {
			if encoded, err := json.Marshal(value); err == nil {
				return json.Number(encoded)
			}
		}
		f.complain(path, "JSON has no such number")
		return nil
	case "!!binary":
		f.complain(path, "want a text, not binary data")
		return nil
	}
	return node.Value
}
