package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// watchedRow is what an open page costs the execs: true while one follows the
// events and asks for the list each second, and the worker itself, unwatched, as
// the floor.
func watchedRow(ctx context.Context, b *bench) ([]result, error) {
	var watched, alone []float64
	for range b.sizes.trueRounds {
		took, err := b.worker.runs(ctx, "true", b.sizes.trueBatch)
		if err != nil {
			return nil, err
		}
		alone = append(alone, median(in(time.Millisecond, took)))
		page, err := b.openPage(ctx)
		if err != nil {
			return nil, err
		}
		took, err = b.worker.runs(ctx, "true", b.sizes.trueBatch)
		if err = errors.Join(err, page.close()); err != nil {
			return nil, err
		}
		watched = append(watched, median(in(time.Millisecond, took)))
	}
	return []result{compared("true p50, watched", "ms", watched, alone, target{Most: 1.02})}, nil
}

// page is somebody who watches over the admin socket.
type page struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	err    error // of the list
}

// openPage returns once the first snapshot has come.
func (b *bench) openPage(ctx context.Context) (*page, error) {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", b.worker.socket)
		},
	}}
	ctx, cancel := context.WithCancel(ctx)
	get := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
		if err != nil {
			return nil, err
		}
		answer, err := client.Do(r)
		if err == nil && answer.StatusCode != http.StatusOK {
			answer.Body.Close()
			err = errors.New(path + ": " + answer.Status)
		}
		return answer, err
	}
	events, err := get("/admin/v1/events?format=ndjson")
	if err == nil {
		_, err = io.ReadFull(events.Body, make([]byte, 1))
	}
	if err != nil {
		cancel()
		return nil, err
	}
	p := &page{cancel: cancel}
	p.wg.Go(func() {
		defer client.CloseIdleConnections()
		defer events.Body.Close()
		_, _ = io.Copy(io.Discard, events.Body) // until it is closed
	})
	p.wg.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for ctx.Err() == nil {
			list, err := get("/admin/v1/inflight?format=json")
			if err != nil {
				if ctx.Err() == nil {
					p.err = err
				}
				return
			}
			_, _ = io.Copy(io.Discard, list.Body)
			list.Body.Close()
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	return p, nil
}

func (p *page) close() error {
	p.cancel()
	p.wg.Wait()
	return p.err
}
