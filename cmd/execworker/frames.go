package main

import (
	"fmt"
	"strings"

	"execworker/daemon/devrelay"
	sandboxv1 "execworker/proto/sandbox/v1"
	"execworker/telemetry"
)

// eventLine shows one event of a relay in one line, harmless to a terminal.
func eventLine(e devrelay.Event) string {
	who := telemetry.Visible(e.SandboxID)
	switch e.Kind {
	case devrelay.Attached:
		return fmt.Sprintf("%s attached: %s", who, workerFrameText(e.Received))
	case devrelay.Detached:
		return fmt.Sprintf("%s detached: %s", who, telemetry.Visible(e.Why))
	case devrelay.Refused:
		return strings.TrimSpace(fmt.Sprintf("%s refused: %s", who, telemetry.Visible(e.Why)))
	case devrelay.Sent:
		return fmt.Sprintf("→ %s", serverFrameText(e.Sent))
	case devrelay.Received:
		return fmt.Sprintf("← %s", workerFrameText(e.Received))
	}
	return fmt.Sprintf("event of kind %d", e.Kind)
}

func serverFrameText(f *sandboxv1.ServerFrame) string {
	switch m := f.GetMsg().(type) {
	case *sandboxv1.ServerFrame_Exec:
		x := m.Exec
		text := fmt.Sprintf("Exec %d %s", x.GetReqId(), quoted(x.GetCommand()))
		if n := len(x.GetStdin()); n > 0 {
			text += fmt.Sprintf(" stdin: %d bytes", n)
		}
		if x.GetTimeoutS() > 0 {
			text += fmt.Sprintf(" timeout: %d s", x.GetTimeoutS())
		}
		if !x.GetStreaming() {
			text += " buffered"
		}
		if x.GetWorkspaceKey() != "" {
			text += " workspace_key: " + quoted(x.GetWorkspaceKey())
		}
		return text
	case *sandboxv1.ServerFrame_Abort:
		return fmt.Sprintf("Abort %d", m.Abort.GetReqId())
	}
	return "unknown frame"
}

func workerFrameText(f *sandboxv1.WorkerFrame) string {
	switch m := f.GetMsg().(type) {
	case *sandboxv1.WorkerFrame_Hello:
		h := m.Hello
		return fmt.Sprintf("Hello from %s, %d slots, %s", quoted(h.GetSandboxId()), h.GetCapacityMax(),
			telemetry.Visible(strings.Join(h.GetCapabilities(), " ")))
	case *sandboxv1.WorkerFrame_Heartbeat:
		return "Heartbeat"
	case *sandboxv1.WorkerFrame_Chunk:
		stream := "stdout"
		if m.Chunk.GetStream() == sandboxv1.Stream_STREAM_STDERR {
			stream = "stderr"
		}
		return fmt.Sprintf("Chunk %d %s %d bytes %s", m.Chunk.GetReqId(), stream, len(m.Chunk.GetData()), quoted(string(m.Chunk.GetData())))
	case *sandboxv1.WorkerFrame_End:
		text := fmt.Sprintf("End %d exit code %d", m.End.GetReqId(), m.End.GetExitCode())
		if m.End.GetTruncated() {
			text += " truncated"
		}
		return text
	case *sandboxv1.WorkerFrame_Error:
		return fmt.Sprintf("ExecError %d %s", m.Error.GetReqId(), quoted(m.Error.GetMessage()))
	}
	return "unknown frame"
}

// quoted shows the beginning of a text from outside.
func quoted(s string) string { return `"` + short(s, 60) + `"` }

// short is s made visible and cut to n runes. s itself is cut first: it can be
// as large as a frame.
func short(s string, n int) string {
	text := []rune(telemetry.Visible(s[:min(len(s), 4*n)]))
	if len(text) > n || len(s) > 4*n {
		return string(text[:min(len(text), n-1)]) + "…"
	}
	return string(text)
}
