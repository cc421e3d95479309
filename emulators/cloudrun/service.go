package cloudrun

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
)

const (
	// utilization is the share of its concurrency that Cloud Run keeps an instance at: "targets to keep instance
	// concurrency at 60% of the maximum concurrency over a one minute window"
	// (docs.cloud.google.com/run/docs/about-instance-autoscaling).
	utilization = 0.6
	window      = time.Minute
	// sampling is the time between two looks at the concurrency.
	sampling = 5 * time.Second
)

// ServiceOptions configure a Service.
type ServiceOptions struct {
	// First is the instance that runs already.
	First http.Handler
	// Concurrency is how many requests an instance gets concurrently.
	Concurrency int
	// Patience is how long a request waits for a free instance, such as QueueTime.
	Patience time.Duration
	// Start starts a further instance. Nil is for a service of one instance.
	Start func(context.Context) (http.Handler, error)
	// MaxInstances bounds the instances.
	MaxInstances int
}

// Service is the front door of a service of Cloud Run. It passes requests to instances, at most Concurrency to each.
// Further ones wait, and are refused with 429 after their patience.
//
// It adds an instance if requests wait, or if the average concurrency of a minute is above 60 % of what the instances
// have. Unlike Cloud Run it does not look at their CPU time, and ends none.
type Service struct {
	options ServiceOptions
	ctx     context.Context // until Close
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	instances []*instance
	starting  int
	waiting   []chan *instance // each has room for one
	samples   []int            // requests in flight, of the last minute
}

// instance is a running instance with the number of its requests.
type instance struct {
	handler  http.Handler
	inFlight int
}

// NewService returns a service that runs until Close.
func NewService(o ServiceOptions) *Service {
	s := &Service{options: o, instances: []*instance{{handler: o.First}}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.running.Go(func() {
		tick := time.NewTicker(sampling)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.sample()
			case <-s.ctx.Done():
				return
			}
		}
	})
	return s
}

// Close ends the scaling. Requests must have ended before.
func (s *Service) Close() error {
	s.stop()
	s.running.Wait()
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	i := s.acquire(req.Context())
	if i == nil {
		w.Header().Set("Connection", "close") // the body is not read
		http.Error(w, "Rate exceeded.", http.StatusTooManyRequests)
		return
	}
	defer s.release(i)
	// The slot is free when the instance has answered, whether or not the client still sends its body.
	answer, forwarded := intake.Duplex(w, req)
	defer answer.Finish()
	i.handler.ServeHTTP(answer, forwarded)
}

// acquire takes a slot of the instance with the fewest requests. It returns nil if none gets free in time.
func (s *Service) acquire(ctx context.Context) *instance {
	s.mu.Lock()
	if i := s.freest(); i != nil {
		i.inFlight++
		s.mu.Unlock()
		return i
	}
	granted := make(chan *instance, 1)
	s.waiting = append(s.waiting, granted)
	s.scale(len(s.waiting) + s.inFlight())
	s.mu.Unlock()
	patience := time.NewTimer(s.options.Patience)
	defer patience.Stop()
	select {
	case i := <-granted:
		return i
	case <-patience.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w chan *instance) bool { return w == granted })
	select {
	case i := <-granted: // while the time ended
		return i
	default:
		return nil
	}
}

// freest returns the instance with the fewest requests if it has a free slot. s.mu is held.
func (s *Service) freest() *instance {
	i := slices.MinFunc(s.instances, func(a, b *instance) int { return a.inFlight - b.inFlight })
	if i.inFlight >= s.options.Concurrency {
		return nil
	}
	return i
}

// release frees a slot, or passes it to the request that waits longest.
func (s *Service) release(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.inFlight--
	s.admit()
}

// admit passes free slots to waiting requests. s.mu is held.
func (s *Service) admit() {
	for len(s.waiting) > 0 {
		i := s.freest()
		if i == nil {
			return
		}
		i.inFlight++
		s.waiting[0] <- i
		s.waiting = s.waiting[1:]
	}
}

func (s *Service) inFlight() (sum int) {
	for _, i := range s.instances {
		sum += i.inFlight
	}
	return sum
}

// sample looks at the concurrency, and adds instances if its average over the window asks for them.
func (s *Service) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, s.inFlight())
	const most = int(window / sampling)
	if len(s.samples) < most {
		return
	}
	s.samples = s.samples[len(s.samples)-most:]
	sum := 0
	for _, n := range s.samples {
		sum += n
	}
	s.scale(int(math.Ceil(float64(sum) / float64(most) / utilization)))
}

// scale starts instances until all have a number of slots. s.mu is held.
func (s *Service) scale(slots int) {
	if s.options.Start == nil || s.ctx.Err() != nil {
		return
	}
	wanted := min((slots+s.options.Concurrency-1)/s.options.Concurrency, s.options.MaxInstances)
	for len(s.instances)+s.starting < wanted {
		s.starting++
		s.running.Go(s.start)
	}
}

func (s *Service) start() {
	handler, err := s.options.Start(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	if err != nil {
		slog.Error("an instance did not start", "error", err)
		return
	}
	s.instances = append(s.instances, &instance{handler: handler})
	s.admit()
}
