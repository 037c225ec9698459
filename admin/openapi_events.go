package admin

// eventData is what comes with each type of event: a zero value of its view.
// Types that are not here, or views that are not what is sent, fail a test.
var eventData = map[string]any{
	"exec.queued":          judgedData{},
	"exec.judged":          judgedData{},
	"cache.collision":      judgedData{},
	"exec.dequeued":        stepData{},
	"exec.started":         stepData{},
	"exec.first_output":    stepData{},
	"exec.abort_requested": stepData{},
	"exec.killing":         stepData{},
	"exec.killed":          stepData{},
	"exec.finished":        receiptView{},
	"exec.survivors":       stepData{},
	"exec.survivors_gone":  stepData{},
	"exec.progress":        progressData{},
	"conn.state":           workerData{},
	"conn.frame_ignored":   workerData{},
	"process.rogue_killed": workerData{},
	"workspace.swept":      workerData{},
	"worker.admission":     workerData{},
	"worker.draining":      workerData{},
	"worker.drained":       workerData{},
	"admin.denied":         workerData{},
	"snapshot":             snapshotData{},
	"stats":                statsData{},
	"keepalive":            map[string]string{},
}

// ofEvents is the schema of a line of the stream for each type of event.
func (all schemas) ofEvents() []object {
	kinds := make([]object, 0, len(eventTypes))
	for _, name := range eventTypes {
		kinds = append(kinds, object{
			"type": "object", "title": name, "additionalProperties": false,
			"required": []string{"seq", "at", "type", "data"},
			"properties": object{
				"seq":  object{"type": "integer", "description": words["Event.seq"]},
				"at":   object{"type": "string", "format": "date-time", "description": words["Event.at"]},
				"type": object{"const": name},
				"data": all.of(eventData[name]),
			},
		})
	}
	return kinds
}
