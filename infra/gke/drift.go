package gke

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.ObjectLister = (*Clusters)(nil)

// listed is what the drift check sees: all objects of an agent but its Secret, which workers may not list. The Secret
// owns the ConfigMap, which stands for both.
func (b blueprint) listed() []object {
	return append([]object{
		b.namespace(), b.quota(), b.networkPolicy(), b.plainEnvironment(), b.volumeClaim(), b.statefulSet(),
		b.service(),
	}, b.files()...)
}

// Objects implements provisioning.ObjectLister. It reads the metadata of each kind with one list.
func (c *Clusters) Objects(ctx context.Context, cell string) (provisioning.Snapshot, error) {
	client, err := c.client(cell)
	if err != nil {
		return nil, err
	}
	b := blueprint{agent: agent.Agent{Cell: cell}, plan: plan.Plan{}, settings: c.settings}
	s := &snapshot{clusters: c, fields: map[string]map[string]any{}}
	read := map[string]bool{}
	for _, o := range b.listed() {
		t := targetOf(o)
		if t.namespace, t.name = "", ""; read[t.String()] {
			continue
		}
		read[t.String()] = true
		var found []observedObject
		var kept []provisioning.KeptLog
		err := client.listMetadata(ctx, t, ours, func() { found, kept = nil, nil }, func(o *metav1.PartialObjectMetadata) {
			if t.gvk.Kind == "ConfigMap" && keptlog.IsName(o.Name) {
				kept = appendKept(kept, o)
			} else if seen, ok := s.observe(t.gvk.Kind, o); ok {
				found = append(found, seen)
			}
		})
		if err != nil {
			return nil, explain(err, t)
		}
		s.add(found)
		s.kept = append(s.kept, kept...)
	}
	return s, nil
}

// appendKept adds a kept log to a list, if it is where the agent's objects are. One that does not say when its
// container ended is as old as can be.
func appendKept(kept []provisioning.KeptLog, o *metav1.PartialObjectMetadata) []provisioning.KeptLog {
	id := o.Labels[labelAgent]
	if o.DeletionTimestamp != nil || o.Namespace != agent.Namespace(id) {
		return kept
	}
	ended, _ := keptlog.Describe(o.Annotations)
	return append(kept, provisioning.KeptLog{
		AgentID: id, Name: o.Name, Version: o.ResourceVersion, UID: string(o.UID), EndedAt: ended.EndedAt,
	})
}

// snapshot implements provisioning.Snapshot.
type snapshot struct {
	clusters *Clusters
	// objects maps the ids of agents to their objects by kind and name.
	objects map[string]map[string]observedObject
	// fields maps each encoded set of fields to the set. Agents have few different ones.
	fields map[string]map[string]any
	kept   []provisioning.KeptLog
}

// KeptLogs implements provisioning.Snapshot.
func (s *snapshot) KeptLogs() []provisioning.KeptLog { return s.kept }

// observedObject is what the drift check keeps of an object.
type observedObject struct {
	agentID, key string
	name         string
	// generation and content are the annotations; generation is 0 and content empty on objects of earlier releases.
	generation int64
	content    string
	// fields are those that the control plane applied and that no other program has changed since.
	fields map[string]any
}

// key names an object within its agent.
func key(kind, name string) string { return kind + " " + name }

// observe reads the metadata of an object. An object that is being deleted, or that is not where the agent's objects
// are, does not count.
func (s *snapshot) observe(kind string, o *metav1.PartialObjectMetadata) (observedObject, bool) {
	id, at := o.Labels[labelAgent], o.Namespace
	if kind == "Namespace" {
		at = o.Name
	}
	if o.DeletionTimestamp != nil || at != agent.Namespace(id) {
		return observedObject{}, false
	}
	seen := observedObject{
		agentID: id, key: key(kind, o.Name), name: o.Name, generation: generationOf(o),
		content: o.Annotations[annotationContent],
	}
	if kind == "Namespace" {
		seen.key = key(kind, "")
	}
	if seen.content != "" {
		seen.fields = s.ownFields(o)
	}
	return seen, true
}

func (s *snapshot) add(found []observedObject) {
	if s.objects == nil {
		s.objects = map[string]map[string]observedObject{}
	}
	for _, o := range found {
		if s.objects[o.agentID] == nil {
			s.objects[o.agentID] = map[string]observedObject{}
		}
		s.objects[o.agentID][o.key] = o
	}
}

// Differences implements provisioning.Snapshot.
//
// What it does not see: fields that others added, which applying again would not remove either, and objects without our
// labels. An object without annotations is of an earlier release and is left as it is, unless it is missing.
func (s *snapshot) Differences(a agent.Agent) []provisioning.Difference {
	b, err := s.clusters.blueprint(a, provisioning.RuntimeInput{})
	if err != nil {
		return nil // a plan that does not exist: nothing can be applied
	}
	there := s.objects[a.ID]
	var found []provisioning.Difference
	if !a.WantsPod() { // its other objects are applied when it starts
		for _, o := range []object{b.statefulSet(), b.service()} {
			if problem := s.problem(a, o, there); problem == provisioning.Changed {
				found = append(found, provisioning.Difference{Object: targetOf(o).String(), Problem: problem})
			}
		}
		return found
	}
	for _, o := range b.listed() {
		if problem := s.problem(a, o, there); problem != "" {
			found = append(found, provisioning.Difference{Object: targetOf(o).String(), Problem: problem})
		}
	}
	for _, seen := range there {
		if seen.key == key("ConfigMap", seen.name) && isLeftover(seen.name, seen.generation, a) &&
			!s.precedesGenerations(there) {
			found = append(found, provisioning.Difference{Object: seen.key, Problem: provisioning.Leftover})
		}
	}
	return found
}

// precedesGenerations reports whether an earlier release made the agent's pod. It uses objects of other names, until
// the agent changes.
func (s *snapshot) precedesGenerations(there map[string]observedObject) bool {
	set, ok := there[key("StatefulSet", agentName)]
	return ok && set.content == ""
}

func (s *snapshot) problem(a agent.Agent, o object, there map[string]observedObject) provisioning.Problem {
	kind, name := o.GetObjectKind().GroupVersionKind().Kind, o.GetName()
	if kind == "Namespace" {
		name = ""
	}
	seen, ok := there[key(kind, name)]
	switch {
	case ok && s.changed(a, o, seen):
		return provisioning.Changed
	case ok, kind == "ConfigMap" && s.precedesGenerations(there):
		return ""
	case kind == "Namespace", kind == "PersistentVolumeClaim":
		return provisioning.Lost
	default:
		return provisioning.Missing
	}
}

// changed reports whether an object has another content than the agent's record demands.
func (s *snapshot) changed(a agent.Agent, o object, seen observedObject) bool {
	if seen.content == "" {
		return false
	}
	fields, err := desiredFields(o)
	if err != nil {
		return false
	}
	content := contentHash(fields)
	set := o.GetObjectKind().GroupVersionKind().Kind == "StatefulSet"
	switch {
	case set && seen.generation != a.Generation:
		return true
	case set && seen.content != content:
		// Another release applied this generation. Its pod template stays until the agent's next change, so that a
		// release does not restart all agents.
		return len(seen.fields) == 0 || !hasFields(seen.fields, map[string]any{"spec": map[string]any{"replicas": nil}})
	default:
		return seen.content != content || len(seen.fields) == 0 || !hasFields(seen.fields, fields)
	}
}
