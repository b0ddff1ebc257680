//! Job objects, and the resumption of a process that was started asleep: the only calls of Windows made directly.
//!
//! Every call takes handles that this file or the standard library owns, and memory that lives across the call.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::ptr::null;

use windows_sys::Win32::Foundation::{ERROR_MORE_DATA, INVALID_HANDLE_VALUE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_PROCESS_ID_LIST, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicProcessIdList,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    GetExitCodeProcess, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME, WaitForSingleObject,
};

/// Most processes of one job that are told apart.
const MOST: usize = 1024;

/// What processes of a job end with.
const EXIT_CODE: u32 = 1;

/// A set of processes with all their descendants, which ends with this value and with this process.
#[derive(Debug)]
pub(super) struct Job(OwnedHandle);

fn told(success: i32) -> io::Result<()> {
    if success == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn bytes(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl Job {
    /// A job without processes, whose handle nobody inherits.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no attributes and no name are allowed; what comes back is a new handle or null.
        let handle = unsafe { CreateJobObjectW(null(), null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is valid and belongs to nobody else.
        let job = Self(unsafe { OwnedHandle::from_raw_handle(handle) });
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the class goes with the type of `limits`, and the size is its size.
        told(unsafe {
            SetInformationJobObject(
                job.raw(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                bytes(size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>()),
            )
        })?;
        Ok(job)
    }

    fn raw(&self) -> RawHandle {
        self.0.as_raw_handle()
    }

    /// Adds a process; from then on its descendants belong to the job as well.
    pub(super) fn add(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        // SAFETY: both handles are valid for the length of the call.
        told(unsafe { AssignProcessToJobObject(self.raw(), process.as_raw_handle()) })
    }

    /// Ends every process of the job.
    pub(super) fn end(&self) {
        // A failure means that nobody is left: `members` tells.
        // SAFETY: the handle is valid.
        let _ = unsafe { TerminateJobObject(self.raw(), EXIT_CODE) };
    }

    /// Numbers of the processes in the job, at most [`MOST`] of them.
    pub(super) fn members(&self) -> io::Result<Vec<u32>> {
        // Two 32-bit counts, then numbers as wide as a pointer.
        const HEAD: usize = offset_of!(JOBOBJECT_BASIC_PROCESS_ID_LIST, ProcessIdList);
        let mut list = vec![0_usize; HEAD.div_ceil(size_of::<usize>()) + MOST];
        let size = bytes(size_of::<usize>() * list.len());
        // SAFETY: `list` is aligned for the structure and `size` bytes long.
        let read = told(unsafe {
            QueryInformationJobObject(
                self.raw(),
                JobObjectBasicProcessIdList,
                list.as_mut_ptr().cast(),
                size,
                std::ptr::null_mut(),
            )
        });
        if let Err(error) = read
            && error.raw_os_error() != i32::try_from(ERROR_MORE_DATA).ok()
        {
            return Err(error);
        }
        // SAFETY: the list is aligned for the structure and longer than its head, which the call has written.
        let count =
            unsafe { (*list.as_ptr().cast::<JOBOBJECT_BASIC_PROCESS_ID_LIST>()).NumberOfProcessIdsInList };
        let count = usize::try_from(count).unwrap_or(0).min(MOST);
        let ids = list.iter().skip(HEAD / size_of::<usize>()).take(count);
        Ok(ids.filter_map(|id| u32::try_from(*id).ok()).collect())
    }
}

/// How a process ended, or `None` while it runs.
pub(super) fn exit_code(process: BorrowedHandle<'_>) -> Option<u32> {
    if !wait(process, 0) {
        return None;
    }
    let mut code = 0;
    // SAFETY: the handle is valid and `code` can be written.
    told(unsafe { GetExitCodeProcess(process.as_raw_handle(), &raw mut code) }).ok().map(|()| code)
}

/// Waits for the end of a process, at most so many milliseconds; whether it came.
pub(super) fn wait(process: BorrowedHandle<'_>, milliseconds: u32) -> bool {
    // SAFETY: the handle is valid for the length of the call.
    unsafe { WaitForSingleObject(process.as_raw_handle(), milliseconds) == WAIT_OBJECT_0 }
}

/// Lets a process run that was started asleep: all of its threads, which is one.
pub(super) fn resume(process: u32) -> io::Result<()> {
    // SAFETY: what comes back is a new handle or an error value.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is valid and belongs to nobody else.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut entry = THREADENTRY32 { dwSize: bytes(size_of::<THREADENTRY32>()), ..Default::default() };
    // SAFETY: the handle is valid, and `entry` has the size that it says.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) } != 0;
    let mut resumed = false;
    while more {
        if entry.th32OwnerProcessID == process {
            resume_thread(entry.th32ThreadID)?;
            resumed = true;
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) } != 0;
    }
    if resumed { Ok(()) } else { Err(io::Error::other("its thread was not found")) }
}

fn resume_thread(number: u32) -> io::Result<()> {
    // SAFETY: what comes back is a new handle or null.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, number) };
    if thread.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is valid and belongs to nobody else.
    let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
    // SAFETY: the handle is valid and allows this.
    if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The handle that a child lends.
pub(super) fn borrow(_child: &tokio::process::Child, handle: RawHandle) -> BorrowedHandle<'_> {
    // SAFETY: the child owns the handle for as long as it is borrowed here and was not waited for.
    unsafe { BorrowedHandle::borrow_raw(handle) }
}
