//! A thread that runs one job after another for a fleet, and reports the end of each job to the
//! fleet's poll set. Dropping the worker waits for its running job.
//!
//! ```text
//!   the fleet ─► queue ─► thread: a job, a job, ... ─► a byte to the poll set for each
//! ```

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::{fmt, io, thread};

use super::fault::Fault;
use crate::news::{News, Teller, news};

/// A job, which leaves its result in the [`Job`] of its owner.
type Work = Box<dyn FnOnce() + Send>;

/// The thread, started at the first job.
#[derive(Debug)]
pub(super) struct Worker {
    name: &'static str,
    thread: Option<Thread>,
}

struct Thread {
    /// `None` only during the drop, which closes the queue to end the thread.
    queue: Option<Sender<Work>>,
    /// Number of jobs that are not done yet.
    left: Arc<AtomicUsize>,
    /// Readable after a job is done.
    news: News,
    handle: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.queue = None;
        // The thread ends with its queue. A panic of a job is ignored.
        self.handle.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

/// Handle of a job, with the job's result once the job is done. Dropping the handle cancels the
/// job.
#[derive(Debug)]
pub(super) struct Job<T> {
    done: Arc<OnceLock<Result<T, Fault>>>,
    is_left: Arc<AtomicBool>,
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Relaxed);
    }
}

impl<T: Send + Sync + 'static> Job<T> {
    /// Queues the job for a thread. The job can read whether it was cancelled. A job cancelled
    /// before its turn is never begun.
    pub(super) fn begin(
        worker: &mut Worker,
        work: impl FnOnce(&AtomicBool) -> Result<T, Fault> + Send + 'static,
    ) -> Job<T> {
        let job = Job { done: Arc::default(), is_left: Arc::default() };
        let (done, is_left) = (Arc::clone(&job.done), Arc::clone(&job.is_left));
        let sent = worker.send(Box::new(move || {
            if !is_left.load(Ordering::Relaxed) {
                let _ = done.set(work(&is_left));
            }
        }));
        if let Err(why) = sent {
            let _ = job.done.set(Err(why));
        }
        job
    }

    pub(super) fn done(&self) -> Option<Result<T, Fault>>
    where
        T: Clone,
    {
        // If no thread has the job and the job has no result, its thread has ended in a panic. The
        // count is read before the result, because the job may finish in between.
        let is_alone = Arc::strong_count(&self.done) == 1;
        let gone = || is_alone.then_some(Err(Fault::ThreadEnded));
        self.done.get().cloned().or_else(gone)
    }
}

impl Worker {
    pub(super) fn new(name: &'static str) -> Worker {
        Worker { name, thread: None }
    }

    /// Queues a job. After an error the job will never be done.
    fn send(&mut self, work: Work) -> Result<(), Fault> {
        if self.thread.is_none() {
            let started = start(self.name);
            self.thread = Some(started.map_err(|error| Fault::NoThread(error.into()))?);
        }
        let Some(thread) = &self.thread else { return Ok(()) };
        thread.left.fetch_add(1, Ordering::Relaxed);
        if thread.queue.as_ref().is_none_or(|queue| queue.send(work).is_err()) {
            self.thread = None;
            return Err(Fault::ThreadEnded);
        }
        Ok(())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| {
            // A thread that has ended does none of the remaining jobs.
            let has_ended = thread.handle.as_ref().is_none_or(JoinHandle::is_finished);
            has_ended || thread.left.load(Ordering::Relaxed) == 0
        })
    }

    /// Waits for the running job and the queued jobs. Cancelled jobs in the queue take no time.
    pub(super) fn close(&mut self) {
        self.thread = None;
    }

    /// Returns the descriptor that becomes readable after a job is done.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.thread.as_ref()?.news.fd())
    }

    /// Clears the descriptor's readiness. A thread that has ended in a panic is dropped, because
    /// its descriptor would stay readable. The next job starts another thread.
    pub(super) fn drain(&mut self) {
        if self.thread.as_ref().is_some_and(|thread| !thread.news.drain()) {
            self.thread = None;
        }
    }
}

fn start(name: &str) -> io::Result<Thread> {
    let (news, told) = news()?;
    let (queue, jobs) = channel();
    let left = Arc::new(AtomicUsize::new(0));
    let its = Arc::clone(&left);
    let work = move || run(&jobs, &its, &told);
    let handle = thread::Builder::new().name(name.into()).spawn(work)?;
    Ok(Thread { queue: Some(queue), left, news, handle: Some(handle) })
}

fn run(jobs: &Receiver<Work>, left: &AtomicUsize, told: &Teller) {
    while let Ok(job) = jobs.recv() {
        job();
        left.fetch_sub(1, Ordering::Relaxed);
        told.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until<T: Clone + Send + Sync + 'static>(job: &Job<T>) -> Result<T, String> {
        let deadline = vm::Deadline::after(std::time::Duration::from_secs(60));
        loop {
            match job.done() {
                Some(done) => return done.map_err(|why| why.to_string()),
                None => assert!(deadline.remaining().is_some(), "never done"),
            }
        }
    }

    #[test]
    fn a_panicking_job_and_later_jobs_count_as_done() {
        let mut worker = Worker::new("test");
        let fine = Job::begin(&mut worker, |_: &AtomicBool| Ok(1));
        assert_eq!(until(&fine), Ok(1));
        let broken: Job<u64> = Job::begin(&mut worker, |_: &AtomicBool| panic!("on purpose"));
        assert_eq!(until(&broken), Err("the thread that does this has ended".to_owned()));
        let behind = Job::begin(&mut worker, |_: &AtomicBool| Ok(2));
        let _ = until(&behind);
        assert!(worker.is_idle());
        // A new thread does the next job.
        let next = Job::begin(&mut worker, |_: &AtomicBool| Ok(3));
        assert_eq!(until(&next), Ok(3));
    }

    #[test]
    fn thread_is_forgotten_after_a_panic() {
        let mut worker = Worker::new("test");
        let broken: Job<u64> = Job::begin(&mut worker, |_: &AtomicBool| panic!("on purpose"));
        assert_eq!(until(&broken), Err("the thread that does this has ended".to_owned()));
        // The descriptor of the ended thread stays readable.
        let deadline = vm::Deadline::after(std::time::Duration::from_secs(60));
        while worker.fd().is_some() {
            worker.drain();
            assert!(deadline.remaining().is_some(), "the thread is never forgotten");
        }
        let next = Job::begin(&mut worker, |_: &AtomicBool| Ok(1));
        assert_eq!(until(&next), Ok(1), "another thread does it");
    }

    #[test]
    fn a_job_cancelled_before_its_turn_is_never_begun() {
        let mut worker = Worker::new("test");
        let (go_on, gate) = channel::<()>();
        let busy = Job::begin(&mut worker, move |_: &AtomicBool| Ok(gate.recv().is_ok()));
        let begun = Arc::new(AtomicBool::new(false));
        let its = Arc::clone(&begun);
        let work = move |_: &AtomicBool| Ok(its.swap(true, Ordering::Relaxed));
        drop(Job::begin(&mut worker, work));
        go_on.send(()).unwrap();
        assert_eq!(until(&busy), Ok(true));
        worker.close();
        assert!(!begun.load(Ordering::Relaxed));
    }

    #[test]
    fn cancelled_job_sees_its_cancellation() {
        let mut worker = Worker::new("test");
        let (told, heard) = std::sync::mpsc::channel();
        let (begun, begins) = std::sync::mpsc::channel();
        let job = Job::begin(&mut worker, move |is_left: &AtomicBool| {
            begun.send(()).map_err(Fault::of)?;
            while !is_left.load(Ordering::Relaxed) {}
            told.send(()).map_err(Fault::of)
        });
        begins.recv().unwrap();
        drop(job);
        heard.recv().unwrap();
    }
}
