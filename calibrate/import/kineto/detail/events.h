// The events of a trace file: where each begins and ends, what it holds, its times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kineto/import.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// Splits the text of a Chrome trace into its events as it is read: {"key": value, ..., "traceEvents": [{...}, {...}]},
// or the bare array [{...}, {...}]. It does not parse the events: only strings and brackets are followed. Batches of
// events go to a sink; small values of other top-level keys are kept.
struct EventBatch {
  std::string text;                    // a JSON array of events
  std::vector<std::uint64_t> offsets;  // of each event in the whole text
  std::uint64_t first = 0;             // number of the first event, from 0
};

class EventSplitter {
 public:
  // Errors of the sink come back from feed() and finish().
  using Sink = std::function<model::Result<void>(EventBatch& batch)>;

  EventSplitter(std::string path, Sink sink);

  // Takes the next piece of text. Fails (input) where it cannot be a trace, naming the byte.
  model::Result<void> feed(std::string_view piece);
  // Takes the end of the text and hands out the last batch; of a text that ends early, the complete events. Fails
  // (input) when there are no events to find: an empty text, one that ends before them, or one without traceEvents.
  model::Result<void> finish();

  // Returns where the text ended early, as a sentence; empty when it is complete. Valid after finish().
  const std::string& cut() const { return cut_; }

  // JSON values by top-level key; those over 1 MiB are left out.
  const std::map<std::string, std::string, std::less<>>& properties() const { return properties_; }
  std::uint64_t events() const { return events_; }

 private:
  // first_key and first_event also accept the bracket that closes an empty object or array.
  enum class State {
    start,
    first_key,
    next_key,
    key,
    colon,
    value,
    property,
    after_value,
    first_event,
    next_event,
    event,
    after_event,
    end
  };

  model::Result<std::size_t> step(std::string_view piece, std::size_t at);
  model::Result<std::size_t> expect(std::string_view piece, std::size_t at);
  std::size_t through_key(std::string_view piece, std::size_t at);
  std::size_t through_property(std::string_view piece, std::size_t at);
  model::Result<std::size_t> through_event(std::string_view piece, std::size_t at);
  std::size_t past_nested(std::string_view piece, std::size_t at, bool stop_at_comma);
  bool begins_value(char c);
  void begin_event(std::uint64_t offset);
  void drop_open_event();
  model::Result<void> end_event();
  model::Result<void> flush();
  tl::unexpected<model::Error> unexpected_character(char found, std::uint64_t offset) const;
  tl::unexpected<model::Error> wrong(std::string message, std::string hint) const;

  std::string path_;
  Sink sink_;
  State state_ = State::start;
  std::uint64_t offset_ = 0;  // of the piece in the text
  std::uint64_t events_ = 0;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool found_events_ = false;
  std::size_t event_start_ = 0;  // in the batch's text
  bool bare_ = false;            // the text is an array of events
  std::string key_, value_, cut_;
  EventBatch batch_;
  std::map<std::string, std::string, std::less<>> properties_;
};

// Returns what parses the events of a file, a batch at a time, and adds the relevant ones to the trace, which must
// outlive it. Input errors name the event and its byte.
EventSplitter::Sink event_parser(std::string path, Trace& trace);

// Times in the notation of traces.

// Converts microseconds, as a JSON number or a string of one ("1740461642123456.789", 12, 1.5e3), to whole nanoseconds.
// It is exact, unlike a double, whose resolution for microseconds since 1970 is a quarter microsecond. Returns nullopt
// when the text is no finite number or does not fit.
std::optional<std::int64_t> nanoseconds(std::string_view microseconds);

}  // namespace plumbline::calibrate
