"""The student portal of Larkfield College, as a mock tool server: which tools exist and what each does to the records.

Sessions, tables, argument checks and authorization come from `rollout.examples.kit`. The clock stands still at `NOW`.
The policy beside this file forbids more than this server refuses.
"""

import uuid
from typing import Literal

from rollout.examples.kit import EMAIL, Refusal, Row, Server, TableNames, Tools, preview, tool_table

NOW = "2025-01-23T15:00:00-05:00"
TODAY = NOW[:10]
STANDARD_CREDITS = 18
OVERLOAD_CREDITS = 21
OVERLOAD_GPA = 3.50
MAX_WAITLISTS = 3
TRANSCRIPT_FEES = {"electronic": 6.00, "postal": 11.50}
TRANSCRIPT_COPIES = {"electronic": 1, "postal": 5}
# A letter that is not here (W, withdrawn) earns nothing and does not enter the GPA.
GRADE_POINTS = {
    "A": 4.0, "A-": 3.7, "B+": 3.3, "B": 3.0, "B-": 2.7, "C+": 2.3, "C": 2.0, "C-": 1.7, "D": 1.0, "F": 0.0,
}  # fmt: skip

TABLES = TableNames(
    entities=("Student", "Course", "Section", "Advisor", "Hold"),
    relationships=(
        "Prerequisite", "Enrollment", "Grade", "AdvisingSlot", "Appointment", "WaitlistEntry", "TranscriptRequest",
    ),
)  # fmt: skip
Department = Literal[
    "Art", "Biology", "Chemistry", "Computer Science", "Economics", "English", "History", "Mathematics", "Music",
    "Philosophy", "Physics", "Psychology",
]  # fmt: skip
Topic = Literal["course_planning", "degree_audit", "academic_difficulty", "internship"]
Delivery = Literal["electronic", "postal"]


class PortalTools(Tools):
    """The tools as one session may use them, on the records of the student who is authorized in it."""

    def _new_id(self) -> str:
        return str(uuid.uuid4())

    # Reading the records.

    def _sections(self, wanted: list[Row]) -> list[Row]:
        """Section rows together with title and credits of the course, open seats and length of the waitlist."""
        courses = {row["course_id"]: row for row in self._rows("Course")}
        taken = dict.fromkeys((row["section_id"] for row in wanted), 0)
        waiting = taken.copy()
        for row in self._rows("Enrollment"):
            if row["section_id"] in taken and row["status"] == "enrolled":
                taken[row["section_id"]] += 1
        for row in self._rows("WaitlistEntry"):
            if row["section_id"] in waiting:
                waiting[row["section_id"]] += 1
        return [
            row
            | {
                "title": courses[row["course_id"]]["title"],
                "credits": courses[row["course_id"]]["credits"],
                "seats_available": max(row["capacity"] - taken[row["section_id"]], 0),
                "waitlist_length": waiting[row["section_id"]],
            }
            for row in wanted
        ]

    def _section(self, section_id: str) -> Row:
        return self._sections([self._find("Section", section_id)])[0]

    def _schedule(self) -> list[Row]:
        """The sections that the student is enrolled in, each with its enrollment_id."""
        enrolled = {row["section_id"]: row for row in self._mine("Enrollment", status="enrolled")}
        rows = [row for row in self._rows("Section") if row["section_id"] in enrolled]
        return [
            {"enrollment_id": enrolled[section["section_id"]]["enrollment_id"], **section}
            for section in self._sections(rows)
        ]

    def _average(self, grades: list[Row]) -> float | None:
        """Grade points weighted by credits; every graded attempt counts."""
        credits = {row["course_id"]: row["credits"] for row in self._rows("Course")}
        graded = [(GRADE_POINTS[row["letter"]], credits[row["course_id"]]) for row in grades if row["letter"] != "W"]
        weight: float = sum(credit for _, credit in graded)
        return round(sum(points * credit for points, credit in graded) / weight, 2) if weight else None

    def _credit_limit(self) -> int:
        gpa = self._average(self._mine("Grade"))
        return OVERLOAD_CREDITS if gpa is not None and gpa >= OVERLOAD_GPA else STANDARD_CREDITS

    def _prerequisites(self, course_id: str) -> list[Row]:
        """What a course demands, each with whether a finished attempt of the student meets it."""
        best: dict[str, float] = {}
        for row in self._mine("Grade"):
            best[row["course_id"]] = max(GRADE_POINTS.get(row["letter"], -1.0), best.get(row["course_id"], -1.0))
        return [
            {
                "course_id": row["required_course_id"],
                "minimum_grade": row["minimum_grade"],
                "met": best.get(row["required_course_id"], -1.0) >= GRADE_POINTS[row["minimum_grade"]],
            }
            for row in self._rows("Prerequisite")
            if row["course_id"] == course_id
        ]

    def _upcoming_appointments(self) -> list[Row]:
        slots = {row["advisingslot_id"]: row for row in self._rows("AdvisingSlot")}
        booked = [slots[row["advisingslot_id"]] | row for row in self._mine("Appointment", status="booked")]
        return [row for row in booked if row["starts_at"] > NOW]

    def _taken_slots(self) -> set[str]:
        return {row["advisingslot_id"] for row in self._rows("Appointment") if row["status"] == "booked"}

    # The rules, each a sentence that the caller can act on.

    def _require_no_hold(self, blocked: Literal["registration", "transcripts"]) -> None:
        for hold in self._mine("Hold", status="active"):
            if hold[f"blocks_{blocked}"]:
                raise Refusal(
                    f"An active {hold['kind']} hold ({hold['hold_id']}) blocks {blocked}: {hold['reason']} "
                    f"Only the {hold['office']} can clear it."
                )

    def _require_open_for_adding(self, section: Row) -> None:
        if section["add_deadline"] < TODAY:
            raise Refusal(f"The deadline to add {section['section_id']} passed on {section['add_deadline']}.")

    def _require_eligible(self, section: Row, schedule: list[Row]) -> None:
        """May the student take this section at all, seats and timetable aside?"""
        self._require_no_hold("registration")
        self._require_open_for_adding(section)
        for other in schedule:
            if other["course_id"] == section["course_id"]:
                raise Refusal(f"The student is already enrolled in {section['course_id']} ({other['section_id']}).")
        unmet = [row for row in self._prerequisites(section["course_id"]) if not row["met"]]
        if unmet:
            wanted = " and ".join(f"{row['course_id']} with {row['minimum_grade']} or better" for row in unmet)
            raise Refusal(f"The prerequisites of {section['course_id']} are not met: it needs {wanted}.")

    def _require_fits(self, section: Row, schedule: list[Row]) -> int:
        """The credits this makes together with a schedule, if a seat, the timetable and the limit allow it."""
        if section["seats_available"] == 0:
            raise Refusal(f"{section['section_id']} is full ({section['capacity']} seats).")
        for other in schedule:
            if _clash(section, other):
                raise Refusal(f"{_describe(section)} conflicts with {_describe(other)} in the student's schedule.")
        total: int = sum(other["credits"] for other in schedule) + section["credits"]
        limit = self._credit_limit()
        if total > limit:
            raise Refusal(f"This would make {total} credits; the student's limit this term is {limit}.")
        return total

    def _require_droppable(self, section_id: str, schedule: list[Row]) -> Row:
        for section in schedule:
            if section["section_id"] == section_id:
                if section["drop_deadline"] < TODAY:
                    raise Refusal(f"The deadline to drop {section_id} passed on {section['drop_deadline']}.")
                return section
        raise Refusal(f"The student is not enrolled in a section '{section_id}'.")

    def _enroll(self, section: Row) -> Row:
        """Take a seat. Nobody keeps queueing for a course that they have a seat in."""
        queue = self.session.databases["WaitlistEntry"]
        sections = {row["section_id"]: row["course_id"] for row in self._rows("Section")}
        me, course_id = self.session.authorized_id, section["course_id"]
        queue[:] = [row for row in queue if row["student_id"] != me or sections[row["section_id"]] != course_id]
        values = {"section_id": section["section_id"], "status": "enrolled", "enrolled_at": NOW, "dropped_at": None}
        return self._insert("Enrollment", **values)

    # The tools.

    def authorize_student(self, portal_pin: str, student_id: str | None = None, email: str | None = None) -> Row:
        return self._authorize(portal_pin, student_id=student_id, email=email and email.lower())

    def get_profile(self) -> Row:
        student = self._mine("Student")[0]
        return {
            "student": {key: value for key, value in student.items() if key != "portal_pin"},
            "advisor": dict(self._find("Advisor", student["advisor_id"])),
            "active_holds": [dict(hold) for hold in self._mine("Hold", status="active")],
            "upcoming_appointments": self._upcoming_appointments(),
        }

    def update_contact_details(
        self,
        email: str | None = None,
        phone: str | None = None,
        mailing_address: str | None = None,
        confirm: bool = False,
    ) -> Row:
        return self._change_contact(confirm, email=email, phone=phone, mailing_address=mailing_address)

    def search_courses(
        self,
        keyword: str | None = None,
        department: Department | None = None,
        open_only: bool = False,
    ) -> Row:
        sections = self._sections(self._rows("Section"))
        can_add = {row["course_id"] for row in sections if row["seats_available"] and row["add_deadline"] >= TODAY}
        found = [
            course | {"has_open_section": course["course_id"] in can_add}
            for course in self._rows("Course")
            if department in (None, course["department"])
            and (not open_only or course["course_id"] in can_add)
            and (keyword or "").lower() in f"{course['course_id']} {course['title']} {course['description']}".lower()
        ]
        return {"courses": found, "count": len(found)}

    def get_course_details(self, course_id: str) -> Row:
        offered = [row for row in self._rows("Section") if row["course_id"] == course_id]
        return {
            "course": dict(self._find("Course", course_id)),
            "prerequisites": self._prerequisites(course_id),
            "previous_attempts": [dict(row) for row in self._mine("Grade", course_id=course_id)],
            "sections": self._sections(offered),
        }

    def list_enrollments(self) -> Row:
        left_out = {"term", "part_of_term", "capacity", "add_deadline", "seats_available", "waitlist_length"}
        schedule = self._schedule()
        queues: dict[str, list[Row]] = {}
        for entry in self._rows("WaitlistEntry"):
            queues.setdefault(entry["section_id"], []).append(entry)
        return {
            "enrollments": [
                {key: value for key, value in section.items() if key not in left_out} for section in schedule
            ],
            "total_credits": sum(section["credits"] for section in schedule),
            "credit_limit": self._credit_limit(),
            "waitlists": [
                entry | {"position": 1 + queues[entry["section_id"]].index(entry)}
                for entry in self._mine("WaitlistEntry")
            ],
        }

    def enroll_course(self, section_id: str, confirm: bool = False) -> Row:
        section = self._section(section_id)
        schedule = self._schedule()
        self._require_eligible(section, schedule)
        total = self._require_fits(section, schedule)
        if not confirm:
            return preview("enroll_course", section=section, total_credits_after=total)
        return {"success": True, **self._enroll(section), "total_credits": total}

    def drop_course(self, section_id: str, confirm: bool = False) -> Row:
        schedule = self._schedule()
        section = self._require_droppable(section_id, schedule)
        total = sum(other["credits"] for other in schedule) - section["credits"]
        if not confirm:
            return preview("drop_course", section=section, total_credits_after=total)
        self._update("Enrollment", section["enrollment_id"], status="dropped", dropped_at=NOW)
        return {"success": True, "dropped_section_id": section_id, "total_credits": total}

    def swap_section(self, from_section_id: str, to_section_id: str, confirm: bool = False) -> Row:
        schedule = self._schedule()
        old, new = self._require_droppable(from_section_id, schedule), self._section(to_section_id)
        if old["course_id"] != new["course_id"] or from_section_id == to_section_id:
            raise Refusal("A swap moves the student to another section of the same course.")
        self._require_no_hold("registration")
        self._require_open_for_adding(new)
        total = self._require_fits(new, [other for other in schedule if other["section_id"] != from_section_id])
        if not confirm:
            return preview("swap_section", from_section=old, to_section=new, total_credits_after=total)
        self._update("Enrollment", old["enrollment_id"], status="dropped", dropped_at=NOW)
        return {"success": True, **self._enroll(new), "total_credits": total}

    def join_waitlist(self, section_id: str, confirm: bool = False) -> Row:
        section = self._section(section_id)
        self._require_eligible(section, self._schedule())
        entries = self._mine("WaitlistEntry")
        if any(entry["section_id"] == section_id for entry in entries):
            raise Refusal(f"The student is already on the waitlist of {section_id}.")
        if section["seats_available"]:
            raise Refusal(f"{section_id} has {section['seats_available']} open seat(s): enroll instead of waiting.")
        if len(entries) >= MAX_WAITLISTS:
            raise Refusal(f"The student is on {len(entries)} waitlists already; {MAX_WAITLISTS} is the most.")
        position = section["waitlist_length"] + 1
        if not confirm:
            return preview("join_waitlist", section=section, position=position)
        entry = self._insert("WaitlistEntry", section_id=section_id, joined_at=NOW)
        return {"success": True, **entry, "position": position}

    def leave_waitlist(self, section_id: str, confirm: bool = False) -> Row:
        entries = self._mine("WaitlistEntry", section_id=section_id)
        if not entries:
            raise Refusal(f"The student is not on the waitlist of '{section_id}'.")
        if not confirm:
            return preview("leave_waitlist", entry=dict(entries[0]))
        self._delete("WaitlistEntry", entries[0]["waitlistentry_id"])
        return {"success": True, "left_waitlist_of": section_id}

    def get_transcript_summary(self, term: str | None = None) -> Row:
        grades = self._mine("Grade")
        shown = [row for row in grades if term in (None, row["term"])]
        if not shown:
            terms = ", ".join(dict.fromkeys(row["term"] for row in grades)) or "none"
            raise Refusal(f"There are no grades for '{term}'. Terms with grades: {terms}.")
        courses = {row["course_id"]: row for row in self._rows("Course")}
        earned = {row["course_id"] for row in grades if GRADE_POINTS.get(row["letter"], 0.0) > 0}
        return {
            "grades": [row | {key: courses[row["course_id"]][key] for key in ("title", "credits")} for row in shown],
            "gpa_of_these_grades": self._average(shown),
            "cumulative_gpa": self._average(grades),
            "credits_earned": sum(courses[course_id]["credits"] for course_id in earned),
        }

    def request_transcript(
        self, delivery_method: Delivery, recipient: str, copies: int = 1, confirm: bool = False
    ) -> Row:
        self._require_no_hold("transcripts")
        if delivery_method == "electronic" and not EMAIL.fullmatch(recipient):
            raise Refusal("For electronic delivery the recipient must be an email address.")
        most = TRANSCRIPT_COPIES[delivery_method]
        if not 1 <= copies <= most:
            raise Refusal(f"For {delivery_method} delivery the number of copies must be between 1 and {most}.")
        request = {"delivery_method": delivery_method, "recipient": recipient, "copies": copies}
        request |= {"fee": TRANSCRIPT_FEES[delivery_method] * copies, "status": "received", "requested_at": NOW}
        if not confirm:
            return preview("request_transcript", **request)
        return {"success": True, **self._insert("TranscriptRequest", **request)}

    def list_advising_slots(self, advisor_id: str | None = None, date: str | None = None) -> Row:
        advisor_id = advisor_id or self._mine("Student")[0]["advisor_id"]
        taken = self._taken_slots()
        free = [
            dict(slot)
            for slot in self._rows("AdvisingSlot")
            if slot["advisor_id"] == advisor_id
            and slot["starts_at"] > NOW
            and slot["advisingslot_id"] not in taken
            and date in (None, slot["starts_at"][:10])
        ]
        return {"advisor": dict(self._find("Advisor", advisor_id)), "free_slots": free, "count": len(free)}

    def book_advising_appointment(self, advisingslot_id: str, topic: Topic, confirm: bool = False) -> Row:
        slot = self._find("AdvisingSlot", advisingslot_id)
        if slot["starts_at"] <= NOW:
            raise Refusal(f"{advisingslot_id} began at {slot['starts_at']}, which is past.")
        if advisingslot_id in self._taken_slots():
            raise Refusal(f"{advisingslot_id} is already taken.")
        for booked in self._upcoming_appointments():
            raise Refusal(
                f"The student already has appointment {booked['appointment_id']} at {booked['starts_at']}; "
                "only one can be booked at a time."
            )
        if not confirm:
            return preview("book_advising_appointment", slot=dict(slot), topic=topic)
        values = {"advisingslot_id": advisingslot_id, "topic": topic, "status": "booked"}
        return {"success": True, **self._insert("Appointment", **values), "starts_at": slot["starts_at"]}

    def cancel_advising_appointment(self, appointment_id: str, confirm: bool = False) -> Row:
        upcoming = {row["appointment_id"]: row for row in self._upcoming_appointments()}
        if appointment_id not in upcoming:
            raise Refusal(f"The student has no upcoming appointment '{appointment_id}'.")
        if not confirm:
            return preview("cancel_advising_appointment", appointment=upcoming[appointment_id])
        self._update("Appointment", appointment_id, status="canceled")
        return {"success": True, "appointment_id": appointment_id, "status": "canceled"}


def _describe(section: Row) -> str:
    return f"{section['section_id']} ({section['days']} {section['start_time']}-{section['end_time']})"


def _clash(one: Row, other: Row) -> bool:
    """Do two sections meet at the same time, on a weekday and at dates of both?"""
    return (
        not set(one["days"]).isdisjoint(other["days"])
        and one["start_time"] < other["end_time"]
        and other["start_time"] < one["end_time"]
        and one["start_date"] <= other["end_date"]
        and other["start_date"] <= one["end_date"]
    )


TOOLS = tool_table(
    PortalTools.authorize_student,
    PortalTools.get_profile,
    PortalTools.update_contact_details,
    PortalTools.search_courses,
    PortalTools.get_course_details,
    PortalTools.list_enrollments,
    PortalTools.enroll_course,
    PortalTools.drop_course,
    PortalTools.swap_section,
    PortalTools.join_waitlist,
    PortalTools.leave_waitlist,
    PortalTools.get_transcript_summary,
    PortalTools.request_transcript,
    PortalTools.list_advising_slots,
    PortalTools.book_advising_appointment,
    PortalTools.cancel_advising_appointment,
)


class StudentAcademicPortalServer(Server):
    """The portal for any number of sessions."""

    def __init__(self, domain_name: str) -> None:
        super().__init__(domain_name, __file__, PortalTools, TOOLS, TABLES)
