package daemon

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"execworker/daemon/runner"
	sandboxv1 "execworker/proto/sandbox/v1"
)

func slabOf(p string) *runner.Slab {
	s := runner.NewSlab()
	*s = append(*s, p...)
	return s
}

func never(bool) {}

// send empties the sender and names each frame.
func send(s *sender) (sent []string) {
	for {
		f, _ := s.next()
		if f == nil {
			return sent
		}
		sent = append(sent, name(f))
	}
}

func name(f any) string {
	switch f := f.(type) {
	case *chunk:
		return fmt.Sprintf("%d:%s", f.reqID, *f.slab)
	case *sandboxv1.WorkerFrame:
		switch {
		case f.GetHeartbeat() != nil:
			return "heartbeat"
		case f.GetEnd() != nil:
			return fmt.Sprintf("%d end", f.GetEnd().GetReqId())
		}
		return fmt.Sprintf("%d %s", f.GetError().GetReqId(), f.GetError().GetMessage())
	}
	return fmt.Sprint(f)
}

func wantSent(t *testing.T, s *sender, want ...string) {
	t.Helper()
	if got := send(s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestLanesTakeTurns(t *testing.T) {
	s := newSender()
	flood, quiet := s.lane(1), s.lane(2)
	for i := range 3 {
		flood.put(runner.Stream(1+i%2), slabOf(fmt.Sprint("f", i)), never)
	}
	quiet.put(runner.Stdout, slabOf("q"), never)
	quiet.end(endFrame(2, 0, false))
	wantSent(t, s, "1:f0", "2:q", "2 end", "1:f1", "1:f2")
}

func TestTerminalFrameFollowsItsOwnChunks(t *testing.T) {
	s := newSender()
	l := s.lane(1)
	l.put(runner.Stdout, slabOf("a"), never)
	l.put(runner.Stderr, slabOf("b"), never)
	l.end(endFrame(1, 0, false))
	wantSent(t, s, "1:a", "1:b", "1 end")
}

func TestAnswersDoNotWaitBehindOutput(t *testing.T) {
	s := newSender()
	l, done := s.lane(1), s.lane(2)
	l.put(runner.Stdout, slabOf("a"), never)
	s.answer(errorFrame(3, "busy: queue full"))
	done.end(endFrame(2, 0, false))
	s.beat()
	wantSent(t, s, "heartbeat", "2 end", "3 busy: queue full", "1:a")
}

func TestSmallWritesAreGatheredWhileTheSenderIsBusy(t *testing.T) {
	s := newSender()
	l := s.lane(1)
	slab := slabOf("a")
	if next := l.put(runner.Stdout, slab, never); next == slab {
		t.Fatal("the queued slab is handed back")
	}
	second := slabOf("b")
	if next := l.put(runner.Stdout, second, never); next != second || len(*next) != 0 {
		t.Error("a gathered slab is not handed back empty")
	}
	l.put(runner.Stderr, slabOf("c"), never)
	l.put(runner.Stdout, slabOf("d"), never)
	wantSent(t, s, "1:ab", "1:c", "1:d")
}

func TestGatheringKeepsChunksWithinTheirSize(t *testing.T) {
	s := newSender()
	l := s.lane(1)
	whole := bytes.Repeat([]byte("x"), runner.SlabSize)
	l.put(runner.Stdout, slabOf(string(whole[1:])), never)
	l.put(runner.Stdout, slabOf("a"), never) // fits exactly
	l.put(runner.Stdout, slabOf("b"), never)
	if all := l.chunks.all(); len(all) != 2 || len(*all[0].slab) != runner.SlabSize {
		t.Errorf("%d chunks, the first of %d bytes", len(all), len(*all[0].slab))
	}
}

func TestAFullLaneBlocksItsOwnReadersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender()
		l, other := s.lane(1), s.lane(2)
		fill(l)
		var told []bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.put(runner.Stdout, slabOf("more"), func(waiting bool) { told = append(told, waiting) })
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("a full lane takes more")
		default:
		}
		other.put(runner.Stdout, slabOf("other"), never)
		s.next()
		<-done
		if fmt.Sprint(told) != "[true false]" {
			t.Errorf("told %v", told)
		}
	})
}

func fill(l *lane) {
	whole := string(make([]byte, runner.SlabSize))
	for range laneChunks {
		l.put(runner.Stdout, slabOf(whole), never)
	}
}

// blockedPut fills l and puts one more piece, which waits; done is closed when
// that has been taken.
func blockedPut(l *lane) (done <-chan struct{}) {
	fill(l)
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		l.put(runner.Stdout, slabOf("more"), never)
	}()
	synctest.Wait()
	return taken
}

func TestTheEndOfASessionFreesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender()
		l := s.lane(1)
		done := blockedPut(l)
		s.kill()
		<-done
		l.flush([2][]*runner.Slab{{slabOf("late")}}, never)
		l.end(endFrame(1, 0, false))
		s.lane(2).put(runner.Stdout, slabOf("late"), never)
		if f, over := s.next(); f != nil || !over {
			t.Errorf("sends %v after its end", f)
		}
	})
}

func TestKeptOutputIsSentStdoutFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender()
		l := s.lane(1)
		k := new(kept)
		k.put(runner.Stderr, slabOf("err"))
		k.put(runner.Stdout, slabOf("out"))
		go func() {
			l.flush(k.take(), never)
			l.end(endFrame(1, 0, false))
		}()
		synctest.Wait()
		wantSent(t, s, "1:out", "1:err")
		synctest.Wait()
		wantSent(t, s, "1 end")
	})
}

func TestAnExecKeepsItsSlotUntilItsOutputIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender()
		l := s.lane(1)
		l.put(runner.Stdout, slabOf("a"), never)
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.flush([2][]*runner.Slab{}, never)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("flushed with a chunk unsent")
		default:
		}
		s.next()
		<-done
	})
}

func TestKeptOutputIsCappedAndTheCutIsCounted(t *testing.T) {
	k := new(kept)
	piece := make([]byte, runner.SlabSize-1)
	put := 0
	for put < keptMost+100_000 {
		k.put(runner.Stdout, slabOf(string(piece)))
		put += len(piece)
	}
	k.put(runner.Stderr, slabOf("e"))
	total := 0
	slabs := k.take()[0]
	for _, slab := range slabs {
		total += len(*slab)
	}
	if len(slabs) != keptMost/runner.SlabSize {
		t.Errorf("%d slabs are held for it", len(slabs))
	}
	if total != keptMost || int(k.streams[0].cut) != put-keptMost {
		t.Errorf("kept %d and cut %d of %d", total, k.streams[0].cut, put)
	}
	if !k.truncated() || k.streams[1].cut != 0 {
		t.Error("stdout must count as cut, and stderr not")
	}
}

func TestASenderThatTakesNoAnswersIsWedged(t *testing.T) {
	s := newSender()
	for i := range uint64(maxAnswers) {
		if !s.answer(errorFrame(i, "busy")) {
			t.Fatalf("no room for answer %d", i)
		}
	}
	if s.answer(errorFrame(0, "busy")) {
		t.Error("there is no bound")
	}
	for i := range uint64(maxAnswers) {
		if !s.lane(i).end(endFrame(i, 0, false)) {
			t.Fatalf("a terminal frame has no room of its own: none for number %d", i)
		}
	}
	if s.lane(0).end(endFrame(0, 0, false)) {
		t.Error("there is no bound for terminal frames")
	}
}

func TestFinishSendsEverythingFirst(t *testing.T) {
	s := newSender()
	s.lane(1).end(endFrame(1, 0, false))
	s.finish()
	if f, done := s.next(); done || name(f) != "1 end" {
		t.Errorf("done %v with %v", done, f)
	}
	if _, done := s.next(); !done {
		t.Error("not done when all is sent")
	}
}

func TestAShutLaneSendsWhatItHasAndTakesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender()
		l := s.lane(1)
		done := blockedPut(l)
		l.shutOff()
		<-done
		if !l.lost() {
			t.Error("it does not say that output was dropped")
		}
		l.flush([2][]*runner.Slab{}, never)
		l.end(endFrame(1, 0, false))
		if sent := send(s); len(sent) != laneChunks+1 || sent[laneChunks] != "1 end" {
			t.Errorf("sent %d frames", len(sent))
		}
	})
}
