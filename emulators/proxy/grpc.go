//go:build unix

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// callTimeout bounds a change that is under way when its caller has gone.
const callTimeout = 30 * time.Second

// maxMessage is above the limits of the services.
const maxMessage = 32 << 20

// GRPC forwards the calls of a gRPC service without knowing their messages.
type GRPC struct {
	// Addr is the address (host:port) to call instead of the service.
	Addr   string
	tap    Tap
	target *grpc.ClientConn
	server *grpc.Server
	served sync.WaitGroup
}

// StartGRPC forwards calls to the target (host:port), without encryption.
func StartGRPC(target string, tap Tap) (*GRPC, error) {
	connection, err := grpc.NewClient("passthrough:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", target, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns immediately
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	p := &GRPC{Addr: listener.Addr().String(), tap: tap, target: connection}
	p.server = grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(p.handle),
		grpc.MaxRecvMsgSize(maxMessage), grpc.WaitForHandlers(true))
	p.served.Go(func() { _ = p.server.Serve(listener) })
	return p, nil
}

// Close ends all calls.
func (p *GRPC) Close() error {
	p.server.Stop()
	p.served.Wait()
	return p.target.Close()
}

func (p *GRPC) handle(_ any, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	received, _ := metadata.FromIncomingContext(in.Context())
	ctx := metadata.NewOutgoingContext(in.Context(), received.Copy())
	if reading(path.Base(method)) {
		return p.stream(ctx, method, in)
	}
	return p.change(ctx, method, in)
}

// errTapped is the error of a call that the tap ended. Its caller is usually gone.
var errTapped = status.Error(codes.Unavailable, "the proxy ended the call")

// change forwards a unary call. Once it is forwarded, it takes place even if its caller goes.
func (p *GRPC) change(ctx context.Context, method string, in grpc.ServerStream) error {
	var request, answer []byte
	if err := in.RecvMsg(&request); err != nil {
		return err
	}
	if !p.tap.Before(path.Base(method)) {
		return errTapped
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	var header, trailer metadata.MD
	err := p.target.Invoke(ctx, method, &request, &answer, grpc.Header(&header), grpc.Trailer(&trailer))
	if !p.tap.After(path.Base(method)) {
		return errTapped
	}
	in.SetTrailer(trailer)
	if err != nil {
		return err
	}
	return errors.Join(in.SetHeader(header), in.SendMsg(&answer))
}

// stream forwards the messages of both directions.
func (p *GRPC) stream(ctx context.Context, method string, in grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := p.target.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		if err := forward(in, out); !errors.Is(err, io.EOF) {
			cancel()
			return
		}
		_ = out.CloseSend()
	}()
	err = forward(out, in)
	in.SetTrailer(out.Trailer())
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// messages is a stream of either side.
type messages interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// forward passes messages on until one side ends.
func forward(from, to messages) error {
	for {
		var message []byte
		if err := from.RecvMsg(&message); err != nil {
			return err
		}
		if err := to.SendMsg(&message); err != nil {
			return err
		}
	}
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

// Name implements encoding.CodecV2. The messages are those of the real codec.
func (rawCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
