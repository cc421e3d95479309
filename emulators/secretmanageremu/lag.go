package secretmanageremu

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// former is the state of one secret before a change; nil if it did not exist.
type former struct {
	name   string
	secret *secret
	until  time.Time
}

// now is the time. The caller holds the lock.
func (s *service) now() time.Time { return s.machine().Add(s.ahead) }

// timestamp is now as a message. The caller holds the lock.
func (s *service) timestamp() *timestamppb.Timestamp { return timestamppb.New(s.now()) }

// willChange keeps the state of a secret, which is about to change. The caller holds the lock.
func (s *service) willChange(name string) {
	if s.lag <= 0 {
		s.past = nil
		return
	}
	now := s.now()
	s.past = slices.DeleteFunc(s.past, func(f former) bool { return !f.until.After(now.Add(-s.lag)) })
	s.past = append(s.past, former{name: name, secret: s.secrets[name].clone(), until: now})
}

// seen returns the secrets as they were before the lag. The caller holds the lock and does not change the result.
func (s *service) seen() map[string]*secret {
	if s.lag <= 0 || len(s.past) == 0 {
		return s.secrets
	}
	view, since := maps.Clone(s.secrets), s.now().Add(-s.lag)
	for _, f := range slices.Backward(s.past) {
		switch {
		case !f.until.After(since):
			return view
		case f.secret == nil:
			delete(view, f.name)
		default:
			view[f.name] = f.secret
		}
	}
	return view
}

// clone copies a secret and its versions without their data.
func (c *secret) clone() *secret {
	if c == nil {
		return nil
	}
	copied := &secret{record: proto.CloneOf(c.record), created: c.created}
	for _, v := range c.versions {
		copied.versions = append(copied.versions, &version{record: proto.CloneOf(v.record), number: v.number})
	}
	return copied
}
