package document

// Rest is what a stored record holds that this release does not know: what another release stored in the maps inside
// of it. A store sets it when it reads a record, and writes it back with the record. It is never changed, so copies of
// a record share it. Nil is no rest.
type Rest struct {
	// Members are the unknown members of a map.
	Members map[string]any
	// Parts are the rests of the maps inside of it.
	Parts map[string]*Rest
}

// Only returns the rest of one of the maps; nil if there is none.
func (r *Rest) Only(part string) *Rest {
	if r == nil || r.Parts[part] == nil {
		return nil
	}
	return &Rest{Parts: map[string]*Rest{part: r.Parts[part]}}
}
