// The secret by which the processes of a job recognize each other.
#pragma once

#include <string>

#include "model/base/error.h"
#include "real/bootstrap/bootstrap.h"

namespace plumbline::real {

// Returns PLUMBLINE_JOB_TOKEN where it is set; else torchrun's run id, where the job has several machines and the id is
// too long to be guessed; else what a file holds that only this user can read, and that the first process creates:
// plumbline/job-token in XDG_STATE_HOME, or in .local/state of HOME. Input errors: a token is too short; others can
// read the file; it cannot be created.
model::Result<std::string> read_job_token(Machines machines, const Environment& environment);

}  // namespace plumbline::real
