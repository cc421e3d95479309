package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// pythonFlavor is what differs between the methods of the two clients.
type pythonFlavor struct {
	name, base, def, await, pages, stream, streamEnd string
}

func syncCalls() pythonFlavor {
	return pythonFlavor{
		name: "Calls", base: "SyncBase", def: "def", pages: "Pages", stream: "Generator", streamEnd: ", None, None",
	}
}

func asyncCalls() pythonFlavor {
	return pythonFlavor{
		name: "AsyncCalls", base: "AsyncBase", def: "async def", await: "await ", pages: "AsyncPages",
		stream: "AsyncGenerator", streamEnd: ", None",
	}
}

// write returns the module with the methods of a client.
func (f pythonFlavor) write(p *pythonTypes, calls []pythonCall) []byte {
	w := &pythonWriter{}
	for _, c := range calls {
		f.writeCall(w, p, c)
	}
	body := w.String()
	w.Reset()
	w.WriteString(pythonHeader)
	w.line(0, "\"\"\"The methods of the client.\"\"\"\n\nfrom __future__ import annotations\n")
	f.writeImports(w, p, body)
	w.line(0, "\n\nclass %s(%s):", f.name, f.base)
	w.docstring(1, "One method for each operation.")
	w.WriteString(body)
	return w.Bytes()
}

// writeImports imports the names that the methods use.
func (f pythonFlavor) writeImports(w *pythonWriter, p *pythonTypes, body string) {
	w.imports("collections.abc", used(body, "AsyncGenerator", "Generator", "Mapping", "Sequence"))
	w.imports("datetime", used(body, "datetime"))
	w.imports("typing", used(body, "Any", "Literal", "overload"))
	w.endImports()
	w.imports("._base", append(used(body, f.pages), append([]string{f.base}, used(body, "either")...)...))
	w.imports("._core", used(body, "ARCHIVE", "BYTES", "LINES", "Call"))
	w.imports("._model", used(body, "UNSET", "Unset", "fields", "listed", "nothing"))
	var models []string
	for _, name := range slices.Sorted(maps.Keys(p.schemas)) {
		models = append(models, name)
		if p.answered[name] && p.sent[name] {
			models = append(models, p.specName(name))
		}
	}
	w.imports(".models", used(body, models...))
}

func (f pythonFlavor) writeCall(w *pythonWriter, p *pythonTypes, c pythonCall) {
	result := f.result(p, c)
	def := f.def
	if c.isPaged || c.comesInParts() {
		def = "def"
	}
	if c.canBeRehearsed {
		for _, rehearsed := range []bool{false, true} {
			w.WriteString("\n")
			w.line(1, "@overload")
			literal, returned := "dry_run: Literal[False] = False", result
			if rehearsed {
				literal, returned = "dry_run: Literal[True]", "Rehearsal"
			}
			w.signature(def, c.name, c.parameters(p, literal), returned, " ...")
		}
		result += " | Rehearsal"
	}
	w.WriteString("\n")
	w.signature(def, c.name, c.parameters(p, "dry_run: bool = False"), result, "")
	w.docstring(2, c.documentation()...)
	f.writeReturn(w, p, c)
}

func (f pythonFlavor) result(p *pythonTypes, c pythonCall) string {
	t := p.typeOf(c.answer, false)
	switch {
	case c.isStream:
		return f.stream + "[" + t + f.streamEnd + "]"
	case c.isArchive:
		return f.stream + "[bytes" + f.streamEnd + "]"
	case c.isPaged:
		return f.pages + "[" + t + "]"
	case c.returnsBytes:
		return "bytes"
	case c.answer.Ref == "" && len(c.answer.Type) == 0:
		return "None"
	}
	return t
}

// comesInParts reports whether the answer may be endless or large, so that its method is a generator.
func (c *pythonCall) comesInParts() bool { return c.isStream || c.isArchive }

// parameters returns the parameters of a method after self.
func (c *pythonCall) parameters(p *pythonTypes, dryRun string) []string {
	var all []string
	for _, name := range pathNames(c.path) {
		all = append(all, name+": str")
	}
	var required, optional []string
	add := func(name string, s schema, isRequired bool) {
		t := p.typeOf(s, true)
		switch {
		case isRequired:
			required = append(required, name+": "+t)
		case strings.HasSuffix(t, " | None") || t == "Any":
			optional = append(optional, name+": "+t+" | Unset = UNSET")
		default:
			optional = append(optional, name+": "+t+" | None = None")
		}
	}
	if c.body != nil {
		for _, property := range c.body.Properties {
			add(property.name, property.schema, slices.Contains(c.body.Required, property.name))
		}
	}
	for _, q := range c.query {
		add(pythonName(q.Name), q.Schema, q.Required)
	}
	if c.takesBytes {
		required = append(required, "content: bytes")
	}
	if c.takesBytes || c.returnsBytes {
		optional = append(optional, "archive: bool = False")
	}
	if c.hasIfMatch {
		optional = append(optional, "if_match: str | None = None")
	}
	if c.canBeRehearsed {
		if strings.Contains(dryRun, "=") {
			optional = append(optional, dryRun)
		} else {
			required = append(required, dryRun)
		}
	}
	if c.method != "GET" {
		optional = append(optional, "idempotency_key: str | None = None")
	}
	if !c.comesInParts() {
		optional = append(optional, "timeout: float | None = None")
	}
	if len(required)+len(optional) > 0 {
		all = append(all, "*")
	}
	return append(append(all, required...), optional...)
}

// signature writes the head of a method, on one line if it fits.
func (w *pythonWriter) signature(def, name string, parameters []string, result, end string) {
	line := fmt.Sprintf("%s %s(%s) -> %s:%s", def, name, strings.Join(append([]string{"self"}, parameters...), ", "),
		result, end)
	if len(line)+4 <= columns {
		w.line(1, "%s", line)
		return
	}
	w.line(1, "%s %s(\n        self,", def, name)
	for _, parameter := range parameters {
		w.line(2, "%s,", parameter)
	}
	w.line(1, ") -> %s:%s", result, end)
}

func (c *pythonCall) documentation() []string {
	text := []string{c.Summary + ".", c.Description}
	var args []string
	arg := func(name, description string) {
		if description != "" {
			args = append(args, " "+name+": "+description)
		}
	}
	if c.body != nil {
		for _, property := range c.body.Properties {
			arg(property.name, property.schema.Description)
		}
	}
	for _, q := range c.query {
		arg(pythonName(q.Name), q.Description)
	}
	if c.takesBytes || c.returnsBytes {
		arg("archive", "A directory, as a tar archive, in place of a file.")
	}
	if c.isArchive {
		text = append(text, "Yields the bytes of a tar archive as they arrive. One that is cut off raises an error.")
	}
	if len(args) > 0 {
		text = append(append(text, "Args:"), args...)
	}
	return text
}

// writeReturn writes the statement that sends the call.
func (f pythonFlavor) writeReturn(w *pythonWriter, p *pythonTypes, c pythonCall) {
	method, decode := "_call", cmp.Or(p.decoder(c.answer), "nothing")
	switch {
	case c.isStream:
		method = "_stream"
	case c.isArchive:
		method, decode = "_parts", ""
	case c.isPaged:
		method = "_pages"
	case c.returnsBytes:
		method, decode = "_bytes", ""
	case c.canBeRehearsed:
		decode = "either(dry_run, " + decode + ")"
	}
	await := f.await
	if c.comesInParts() || c.isPaged {
		await = ""
	}
	w.line(2, "call = Call(")
	for _, argument := range c.arguments() {
		w.line(3, "%s,", argument)
	}
	w.line(2, ")")
	if decode != "" {
		decode = ", " + decode
	}
	w.line(2, "return %sself.%s(call%s)", await, method, decode)
}

// arguments returns the arguments of the Call that a method sends.
func (c *pythonCall) arguments() []string {
	all := []string{quoted(c.method), quoted(c.path)}
	if names := pathNames(c.path); len(names) > 0 {
		all = append(all, "("+strings.Join(names, ", ")+",)")
	}
	var pairs []string
	for _, q := range c.query {
		pairs = append(pairs, quoted(q.Name)+": "+pythonName(q.Name))
	}
	if len(pairs) > 0 {
		query := "query={" + strings.Join(pairs, ", ") + "}"
		if len(query)+13 > columns {
			query = "query=" + dictionary(pairs, "\n            ")
		}
		all = append(all, query)
	}
	if c.body != nil {
		all = append(all, "body="+c.bodyExpression())
	}
	switch {
	case c.takesBytes:
		all = append(all, "content=content", "content_type=ARCHIVE if archive else BYTES")
	case c.returnsBytes:
		all = append(all, "accept=ARCHIVE if archive else BYTES")
	case c.isStream:
		all = append(all, "accept=LINES")
	case c.isArchive:
		all = append(all, "accept=ARCHIVE")
	}
	var headers []string
	if c.hasIfMatch {
		headers = append(headers, `"If-Match": if_match`)
	}
	if c.method != "GET" {
		headers = append(headers, `"Idempotency-Key": idempotency_key`)
	}
	if len(headers) > 0 {
		all = append(all, "headers={"+strings.Join(headers, ", ")+"}")
	}
	if c.canBeRehearsed {
		all = append(all, "dry_run=dry_run")
	}
	if !c.comesInParts() {
		all = append(all, "timeout=timeout")
	}
	isTime := func(property namedSchema) bool { return property.name == "timeout_seconds" }
	if c.body != nil && slices.ContainsFunc(c.body.Properties, isTime) {
		all = append(all, "held=timeout_seconds or 0") // the answer comes when the command has ended
	}
	if c.ID == "VerifyAuditLog" || c.returnsBytes {
		all = append(all, "held=600") // the API reads the whole log, and sends a file for ten minutes at most
	}
	return all
}

// bodyExpression returns the expression of the body, on several lines if it is long. None of a parameter that may be
// null is sent, and of another one is the same as nothing.
func (c *pythonCall) bodyExpression() string {
	var sent, optional []string
	for _, property := range c.body.Properties {
		pair := quoted(property.name) + ": " + property.name
		isNull := func(s schema) bool { return slices.Contains(s.Type, "null") }
		if slices.Contains(c.body.Required, property.name) || isNull(property.schema) ||
			slices.ContainsFunc(property.schema.AnyOf, isNull) {
			sent = append(sent, pair)
		} else {
			optional = append(optional, pair)
		}
	}
	end := ")"
	if !c.RequestBody.Required {
		end += " or None"
	}
	one := "fields({" + strings.Join(sent, ", ") + "}, {" + strings.Join(optional, ", ") + "}" + end
	if len(one)+20 <= columns {
		return one
	}
	const indent = "\n                "
	return "fields(" + indent + dictionary(sent, indent) + "," + indent + dictionary(optional, indent) + "," +
		"\n            " + end
}

// dictionary returns a dictionary with one pair on each line.
func dictionary(pairs []string, indent string) string {
	if len(pairs) == 0 {
		return "{}"
	}
	return "{" + indent + "    " + strings.Join(pairs, ","+indent+"    ") + "," + indent + "}"
}

func pathNames(path string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

// pythonName returns the name of a parameter, which must not be a keyword.
func pythonName(name string) string {
	if name == "from" {
		return "from_"
	}
	return name
}
