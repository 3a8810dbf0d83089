package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
)

// What went over the wire, for the steps that must know.
type traffic struct {
	sync.Mutex
	requests []request
}

type request struct {
	method, path, query, sent, received string
}

func (t *traffic) follow(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			t.Lock()
			defer t.Unlock()
			t.requests = append(t.requests, request{r.Method, r.URL.Path, r.URL.RawQuery,
				r.Header.Get("Content-Type"), response.Header.Get("Content-Type")})
		}
		return response, err
	})
}

// What was sent while something was done.
func (t *traffic) during(do func() error) ([]request, error) {
	t.Lock()
	t.requests = nil
	t.Unlock()
	err := do()
	t.Lock()
	defer t.Unlock()
	return t.requests, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Runs this program anew with a feature gate of client-go, which is read once per process.
func inProcess(argument, watchList string) func(context.Context) error {
	return func(ctx context.Context) error {
		command := exec.CommandContext(ctx, os.Args[0], argument)
		command.Env = append(os.Environ(), "KUBE_FEATURE_WatchListClient="+watchList)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	}
}
