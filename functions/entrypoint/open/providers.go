package open

import (
	"context"
	"fmt"
	"sync"
)

// outside opens on first use what only some binaries can open; opener is asked for how then, and not before.
func outside[T any](ctx context.Context, o *Clients, opener func() func(context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		open := opener()
		if open == nil {
			var none T
			return none, fmt.Errorf("this binary is not built to open a %T", &none)
		}
		opened, err := open(ctx)
		if c, ok := any(opened).(closer); ok && err == nil {
			o.closeLater(c.Close)
		}
		return opened, err
	})
}
