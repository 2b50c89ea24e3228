// Parses the events of a trace, a batch at a time, and keeps the relevant ones.
#pragma once

#include <memory>
#include <string>

#include "calibrate/import/kineto/detail/event_splitter.h"
#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

class EventParser {
 public:
  EventParser(std::string path, Trace& trace);
  ~EventParser();
  EventParser(const EventParser&) = delete;
  EventParser& operator=(const EventParser&) = delete;

  // Adds the batch to the trace. Input errors name the event and its byte.
  model::Result<void> read(EventBatch& batch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::calibrate
