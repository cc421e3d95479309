package intake

import "sync"

// bufferSize bounds how much of an answer is in memory. A stream holds its buffer for as long as it lasts.
const bufferSize = 16 << 10

// Buffers implements httputil.BufferPool.
type Buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (p *Buffers) Get() []byte {
	if b, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return b[:]
	}
	return new([bufferSize]byte)[:]
}

// Put implements httputil.BufferPool.
func (p *Buffers) Put(b []byte) { p.pool.Put((*[bufferSize]byte)(b)) }
