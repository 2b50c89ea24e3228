// Ctrl-C as a request to stop: what was found so far can still be printed. A second one ends the program at once.
#pragma once

namespace plumbline::cli {

// While one of these lives the first SIGINT only sets the flag; at most one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;  // safe from any thread
};

}  // namespace plumbline::cli
