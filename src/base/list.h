/* SPDX-License-Identifier: MIT */
/* A circular doubly linked list through a member of the element.
 *
 * A head and an unlinked element both point at themselves, so removing is the
 * same for all, and removing twice is harmless. Nothing is owned.
 */
#ifndef SRC_BASE_LIST_H
#define SRC_BASE_LIST_H

#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define LIST_INITIALIZER(name) {&(name), &(name)}
#define CONTAINER_OF(link, type, member) ((type *)((char *)(link) - offsetof(type, member)))
#define LIST_FOR_EACH(it, head)                                                \
    for (struct list *it = (head)->next; it != (head); it = it->next)
/* The current element may be removed. */
#define LIST_FOR_EACH_SAFE(it, after, head)                                    \
    for (struct list *it = (head)->next, *after = it->next; it != (head);      \
         it = after, after = it->next)

static inline void list_init(struct list *list)
{
    list->next = list->prev = list;
}

static inline int list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_insert(struct list *before, struct list *link)
{
    link->prev = before->prev;
    link->next = before;
    before->prev->next = link;
    before->prev = link;
}

static inline void list_push_back(struct list *head, struct list *link)
{
    list_insert(head, link);
}

static inline void list_push_front(struct list *head, struct list *link)
{
    list_insert(head->next, link);
}

/* Moves a link from one list to the front of another. */
static inline void list_move_front(struct list *head, struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_push_front(head, link);
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

#endif
