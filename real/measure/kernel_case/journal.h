// The output file: lines are appended whole and flushed to the disk one by one, so that a killed program loses at
// most the case it was in; the next run goes on behind what is already there.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {

class Journal {
 public:
  // Opens `path` for appending and reads what it holds about `device`. A last line without its end, left by a
  // program that was killed while writing, is cut off. Input error: the file cannot be read or written.
  static model::Result<std::unique_ptr<Journal>> open(const std::string& path, const std::string& device);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool has(const Subject& subject) const;
  // Whether every record of the case is there.
  bool complete(const KernelCase& what) const;
  bool failed(const KernelCase& what) const;
  // The number of measurements of the device that the file held when it was opened.
  std::size_t found() const { return found_; }

  // Appends one line, which ends in a line break, and waits until it is on the disk. False when that fails (disk full).
  bool append(const std::string& text);

 private:
  Journal(int file, std::string device) : file_(file), device_(std::move(device)) {}
  void remember(const std::string& line);

  int file_;
  std::string device_;
  std::set<std::string> measured_, failed_;
  std::size_t found_ = 0;
};

}  // namespace plumbline::real
