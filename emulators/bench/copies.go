package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/infra/gke/cellwatch"
)

// copies is an API server with a fleet of agents. One of them, the model, is in a real cluster, to which copies
// forwards the requests about it. The others have its objects, in the encoding of the real API server, with their own
// IDs and with the labels and annotations that were applied to them. So a fleet of thousands needs neither the CPU nor
// the memory of a cluster that runs it, and its clients receive the same bytes.
type copies struct {
	kubeconfig string
	model      string // the agent's ID
	upstream   http.Handler
	server     *http.Server

	mu sync.Mutex
	// applied has the metadata of the objects of copied agents, by kind and agent.
	applied map[string]map[string]metav1.ObjectMeta
	// answers has what the real API server says about the model, by request.
	answers map[string]*httptest.ResponseRecorder
	// lists has the encoded items of lists, by request; empty once an object is applied.
	lists map[string][][]byte
}

// startCopies starts an API server, and writes a kubeconfig for it.
func startCopies(listener net.Listener, upstream, kubeconfig string) (*copies, error) {
	config, err := cellwatch.Connect(upstream)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	c := &copies{
		kubeconfig: kubeconfig,
		upstream: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.Out.Header.Del("Accept-Encoding") // answers are changed
			}, Transport: transport,
		},
		applied: map[string]map[string]metav1.ObjectMeta{}, answers: map[string]*httptest.ResponseRecorder{},
		lists: map[string][][]byte{},
	}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.server.Serve(listener) }() // ends with ErrServerClosed
	return c, writeKubeconfig(listener.Addr().String(), kubeconfig)
}

var inPath = regexp.MustCompile(`/agent-([0-9a-f-]{36})(/|$)`)

// ServeHTTP implements http.Handler.
func (c *copies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var id string
	if found := inPath.FindStringSubmatch(r.URL.Path); found != nil {
		id = found[1]
	}
	var err error
	switch {
	case id == c.model:
		c.upstream.ServeHTTP(w, r)
	case id == "":
		err = c.list(w, r)
	case r.Method == http.MethodPatch:
		err = c.apply(w, r, id)
	case r.Method == http.MethodGet:
		c.get(w, r, id)
	default:
		err = fmt.Errorf("%s %s of a copied agent", r.Method, r.URL.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// apply remembers an applied object.
func (c *copies) apply(w http.ResponseWriter, r *http.Request, id string) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &o); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applied[o.Kind] == nil {
		c.applied[o.Kind] = map[string]metav1.ObjectMeta{}
	}
	c.applied[o.Kind][id] = o.ObjectMeta
	clear(c.lists)
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	o.UID = "11111111-1111-1111-1111-111111111111"
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(o)
}

// get answers as the real API server does about the model.
func (c *copies) get(w http.ResponseWriter, r *http.Request, id string) {
	r.URL.Path = strings.ReplaceAll(r.URL.Path, id, c.model)
	answer := c.ask(r)
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(c.model), []byte(id))) // of the same length
}

// ask forwards a read, once.
func (c *copies) ask(r *http.Request) *httptest.ResponseRecorder {
	key := r.URL.String() + r.Header.Get("Accept")
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, ok := c.answers[key]
	if !ok {
		answer = httptest.NewRecorder()
		c.upstream.ServeHTTP(answer, r)
		if answer.Code == http.StatusOK {
			c.answers[key] = answer
		}
	}
	return answer
}

// list answers with a page of the objects of all agents.
func (c *copies) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	from, _ := strconv.Atoi(query.Get("continue")) // 0 without one
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		return fmt.Errorf("a list without a limit: %w", err)
	}
	query.Del("continue")
	r.URL.RawQuery = query.Encode()
	answer := c.ask(r)
	var envelope runtime.Unknown
	encoded, isProtobuf := bytes.CutPrefix(answer.Body.Bytes(), []byte("k8s\x00"))
	if !isProtobuf {
		return fmt.Errorf("list %s: status %d and no protobuf", r.URL.Path, answer.Code)
	}
	if err := envelope.Unmarshal(encoded); err != nil {
		return err
	}
	items, err := c.items(r, envelope)
	if err != nil {
		return err
	}
	page := items[min(from, len(items)):min(from+limit, len(items))]
	next := metav1.ListMeta{ResourceVersion: "1"}
	if from+limit < len(items) {
		next.Continue = strconv.Itoa(from + limit)
	}
	if envelope.Raw, err = encodeList(next, page); err != nil {
		return err
	}
	encoded, err = envelope.Marshal()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	_, err = w.Write(append([]byte("k8s\x00"), encoded...))
	return err
}

// items encodes the objects of all agents for a list.
func (c *copies) items(r *http.Request, model runtime.Unknown) ([][]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.URL.String()
	if known, ok := c.lists[key]; ok {
		return known, nil
	}
	kind, applied := kindOf(r.URL.Path), c.applied["Namespace"]
	one, err := itemOf(kind, model.Raw, c.model)
	if err != nil {
		return nil, err
	}
	items := [][]byte{one}
	for _, id := range slices.Sorted(maps.Keys(applied)) {
		item := bytes.ReplaceAll(one, []byte(c.model), []byte(id))
		if kind != "Pod" {
			if item, err = withMetadata(item, c.applied[kind][id]); err != nil {
				return nil, err
			}
		}
		items = append(items, item)
	}
	c.lists[key] = items
	return items, nil
}

// withMetadata puts the labels and annotations that were applied to an object into its encoded metadata.
func withMetadata(encoded []byte, applied metav1.ObjectMeta) ([]byte, error) {
	var o metav1.PartialObjectMetadata
	if err := o.Unmarshal(encoded); err != nil {
		return nil, err
	}
	o.Labels, o.Annotations = overlay(o.Labels, applied.Labels), overlay(o.Annotations, applied.Annotations)
	return o.Marshal()
}

func overlay(below, above map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, below)
	maps.Copy(all, above)
	return all
}

// kindOf returns the kind of the objects of a list.
func kindOf(collection string) string {
	return map[string]string{
		"namespaces": "Namespace", "resourcequotas": "ResourceQuota", "networkpolicies": "NetworkPolicy",
		"configmaps": "ConfigMap", "persistentvolumeclaims": "PersistentVolumeClaim", "statefulsets": "StatefulSet",
		"services": "Service", "pods": "Pod",
	}[path.Base(collection)]
}

// itemOf returns the encoded object of the agent with the ID in an encoded list.
func itemOf(kind string, list []byte, id string) ([]byte, error) {
	if kind == "Pod" {
		var pods corev1.PodList
		if err := pods.Unmarshal(list); err != nil {
			return nil, err
		}
		for i := range pods.Items {
			if strings.HasSuffix(pods.Items[i].Namespace, id) {
				return pods.Items[i].Marshal()
			}
		}
		return nil, errors.New("the model has no pod")
	}
	var objects metav1.PartialObjectMetadataList
	if err := objects.Unmarshal(list); err != nil {
		return nil, err
	}
	for i := range objects.Items {
		if o := &objects.Items[i]; strings.HasSuffix(o.Namespace, id) || strings.HasSuffix(o.Name, id) {
			return o.Marshal()
		}
	}
	return nil, fmt.Errorf("the model has no %s", kind)
}

// encodeList encodes a list: field 1 is its metadata, and field 2 are its items.
func encodeList(of metav1.ListMeta, items [][]byte) ([]byte, error) {
	head, err := of.Marshal()
	if err != nil {
		return nil, err
	}
	encoded := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), head)
	for _, item := range items {
		encoded = protowire.AppendBytes(protowire.AppendTag(encoded, 2, protowire.BytesType), item)
	}
	return encoded, nil
}
