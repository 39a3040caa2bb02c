//! A thread that does one thing after the other for a fleet, and tells its poll set of each.
//! Dropping it waits for the one that is under way.
//!
//! ```text
//!   the fleet ─► queue ─► thread: a job, a job, ... ─► a byte to the poll set: one is done
//! ```

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::{fmt, io, thread};

use crate::news::{News, Teller, news};

/// What is to be done. What comes of it is kept where its owner finds it.
type Work = Box<dyn FnOnce() + Send>;

/// The thread, from the first job on.
#[derive(Debug)]
pub(super) struct Worker {
    name: &'static str,
    thread: Option<Thread>,
}

struct Thread {
    /// Always there, until this goes.
    queue: Option<Sender<Work>>,
    /// Jobs that are not done yet.
    left: Arc<AtomicUsize>,
    /// Readable when something was done.
    news: News,
    handle: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.queue = None;
        // It ends when its queue does; a job that has panicked has told nobody anything.
        self.handle.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

/// A job whose result is read by its owner when it is done. Dropping it gives it up.
#[derive(Debug)]
pub(super) struct Job<T> {
    done: Arc<OnceLock<Result<T, String>>>,
    is_left: Arc<AtomicBool>,
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Relaxed);
    }
}

impl<T: Send + Sync + 'static> Job<T> {
    /// Has a thread do it, which is told whether it was given up. One that was given up before the
    /// thread comes to it is not begun.
    pub(super) fn begin(
        worker: &mut Worker,
        work: impl FnOnce(&AtomicBool) -> Result<T, String> + Send + 'static,
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

    /// Returns the outcome, if it is done.
    pub(super) fn done(&self) -> Option<Result<T, String>>
    where
        T: Clone,
    {
        // Nobody does it any more, and has not told: its thread has ended in a panic. In this
        // order, for it may be told in between.
        let is_alone = Arc::strong_count(&self.done) == 1;
        let gone = || is_alone.then(|| Err("the thread has ended".to_owned()));
        self.done.get().cloned().or_else(gone)
    }
}

impl Worker {
    /// One whose thread will be called so.
    pub(super) fn new(name: &'static str) -> Worker {
        Worker { name, thread: None }
    }

    /// Queues a job. The error is why it will never be done.
    fn send(&mut self, work: Work) -> Result<(), String> {
        if self.thread.is_none() {
            let started = start(self.name);
            self.thread = Some(started.map_err(|error| format!("no thread can be had: {error}"))?);
        }
        let Some(thread) = &self.thread else { return Ok(()) };
        thread.left.fetch_add(1, Ordering::Relaxed);
        if thread.queue.as_ref().is_none_or(|queue| queue.send(work).is_err()) {
            self.thread = None;
            return Err("the thread has ended".to_owned());
        }
        Ok(())
    }

    /// Whether it has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| {
            // One that has ended does nothing of what is left.
            let has_ended = thread.handle.as_ref().is_none_or(JoinHandle::is_finished);
            has_ended || thread.left.load(Ordering::Relaxed) == 0
        })
    }

    /// Waits for the job that is under way; those behind it are done at once if they were given up.
    pub(super) fn close(&mut self) {
        self.thread = None;
    }

    /// What becomes readable when something was done.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.thread.as_ref()?.news.fd())
    }

    /// Forgets that it was readable.
    pub(super) fn drain(&self) {
        self.thread.iter().for_each(|thread| _ = thread.news.drain());
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
                Some(done) => return done,
                None => assert!(deadline.remaining().is_some(), "never done"),
            }
        }
    }

    #[test]
    fn a_job_that_panics_is_done_and_so_are_those_behind_it() {
        let mut worker = Worker::new("test");
        let fine = Job::begin(&mut worker, |_: &AtomicBool| Ok(1));
        assert_eq!(until(&fine), Ok(1));
        let broken: Job<u64> = Job::begin(&mut worker, |_: &AtomicBool| panic!("on purpose"));
        assert_eq!(until(&broken), Err("the thread has ended".to_owned()));
        let behind = Job::begin(&mut worker, |_: &AtomicBool| Ok(2));
        let _ = until(&behind);
        assert!(worker.is_idle());
        // Another thread does what comes then.
        let next = Job::begin(&mut worker, |_: &AtomicBool| Ok(3));
        assert_eq!(until(&next), Ok(3));
    }

    #[test]
    fn job_is_not_begun_when_given_up_before() {
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
    fn a_job_that_was_given_up_is_told_so() {
        let mut worker = Worker::new("test");
        let (told, heard) = std::sync::mpsc::channel();
        let (begun, begins) = std::sync::mpsc::channel();
        let job = Job::begin(&mut worker, move |is_left: &AtomicBool| {
            begun.send(()).map_err(|error| error.to_string())?;
            while !is_left.load(Ordering::Relaxed) {}
            told.send(()).map_err(|error| error.to_string())
        });
        begins.recv().unwrap();
        drop(job);
        heard.recv().unwrap();
    }
}
