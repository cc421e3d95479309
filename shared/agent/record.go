package agent

import (
	"reflect"
	"slices"
	"time"

	"agents.example/controlplane/shared/secret"
)

// Clone returns a copy that shares no memory with the agent, but for the rest, which never changes.
func (a *Agent) Clone() (c Agent) {
	c = *a
	c.Config, c.Env, c.Stages = slices.Clone(a.Config), slices.Clone(a.Env), slices.Clone(a.Stages)
	c.Files = slices.Clone(a.Files)
	c.PublicPaths = slices.Clone(a.PublicPaths)
	c.Egress, c.Injected = a.Egress.Clone(), slices.Clone(a.Injected)
	c.Sleep.WakeOn = slices.Clone(a.Sleep.WakeOn)
	c.Schedules, c.Snapshots = slices.Clone(a.Schedules), slices.Clone(a.Snapshots)
	c.FormerVolumes, c.UnsetSecrets = slices.Clone(a.FormerVolumes), slices.Clone(a.UnsetSecrets)
	c.Operations, c.Live = slices.Clone(a.Operations), slices.Clone(a.Live)
	c.Awake.Seconds = slices.Clone(a.Awake.Seconds)
	c.SecretVersions, c.ServingChanges = slices.Clone(a.SecretVersions), slices.Clone(a.ServingChanges)
	c.Failure, c.RevertReason = clone(a.Failure), clone(a.RevertReason)
	c.Image.Choice, c.Image.Update.Former = a.Image.Clone(), a.Image.Update.Former.Clone()
	c.Front.Choice, c.Front.Update.Former = a.Front.Clone(), a.Front.Update.Former.Clone()
	if c.MaintenanceWindow = clone(a.MaintenanceWindow); c.MaintenanceWindow != nil {
		c.MaintenanceWindow.Days = slices.Clone(a.MaintenanceWindow.Days)
	}
	return c
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	return new(*v)
}

// WithoutValues returns the agent without the plain values of its environment, as answers to requests are kept: no
// answer shows the values, and they would outlive their removal from the agent.
func (a Agent) WithoutValues() Agent {
	a.Env = slices.Clone(a.Env)
	for i := range a.Env {
		a.Env[i].Value = ""
	}
	a.Files = slices.Clone(a.Files)
	for i := range a.Files {
		a.Files[i].Content = ""
	}
	a.Rest = nil // another release may have stored a value there
	return a
}

// Equal reports whether two states of an agent have the same record: all fields but Version and Rest, and of the
// operations those that are open.
func (a *Agent) Equal(b Agent) bool {
	if a.Generation != b.Generation || !a.UpdatedAt.Equal(b.UpdatedAt) {
		return false // as most changes
	}
	c := *a
	c.Version, b.Version, c.Rest, b.Rest = "", "", nil, nil
	c.Operations, b.Operations = a.OpenOperations(), b.OpenOperations()
	return equal(reflect.ValueOf(&c).Elem(), reflect.ValueOf(&b).Elem())
}

// equal is reflect.DeepEqual for records: two times are equal if they are the same instant, and an empty list is as
// good as none.
func equal(x, y reflect.Value) bool {
	switch x.Kind() {
	case reflect.Struct:
		if at, ok := reflect.TypeAssert[time.Time](x); ok {
			other, _ := reflect.TypeAssert[time.Time](y)
			return at.Equal(other)
		}
		for i := range x.NumField() {
			if !equal(x.Field(i), y.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if x.Len() != y.Len() {
			return false
		}
		for i := range x.Len() {
			if !equal(x.Index(i), y.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if x.IsNil() || y.IsNil() {
			return x.IsNil() == y.IsNil()
		}
		return equal(x.Elem(), y.Elem())
	default:
		return x.Equal(y)
	}
}

// OpenOperations returns the operations that the record keeps: those that are open.
func (a *Agent) OpenOperations() []secret.Operation {
	ended := func(o secret.Operation) bool { return !o.Open() }
	if !slices.ContainsFunc(a.Operations, ended) {
		return a.Operations
	}
	return slices.DeleteFunc(slices.Clone(a.Operations), ended)
}
