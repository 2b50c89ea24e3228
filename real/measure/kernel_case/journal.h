// The output file of a sweep. Each line is appended whole and flushed to the disk, so that a killed program loses at
// most its current case; the next run continues after the existing lines.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {

class Journal {
 public:
  // Opens `path` for appending and reads its records of `device`. An incomplete last line, left by a program that was
  // killed while writing, is removed. Input error: the file cannot be read or written.
  static model::Result<std::unique_ptr<Journal>> open(const std::string& path, const std::string& device);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool has(const Subject& subject) const;
  // Returns whether every record of the case is in the file.
  bool complete(const KernelCase& what) const;
  bool failed(const KernelCase& what) const;
  // Returns how many measurements of the device the file had when it was opened.
  std::size_t found() const { return found_; }

  // Appends one line, which ends in a line break, and waits until it is on the disk. Returns false on failure.
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
